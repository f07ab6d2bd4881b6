#include "cluster/suspect.h"

#include "base/mem.h"

static struct node_report *find_report(const struct node *node, const struct node *reporter)
{
    for (unsigned i = 0; i < node->report_count; i++) {
        if (node->reports[i].reporter == reporter)
            return &node->reports[i];
    }
    return NULL;
}

bool suspect_report(struct node *node, struct node *reporter, int64_t now_ms)
{
    struct node_report *report = find_report(node, reporter);

    if (report != NULL) {
        report->at_ms = now_ms;
        return false;
    }
    if (node->report_count == node->report_room) {
        node->report_room = node->report_room * 2 + 4;
        node->reports = mem_realloc(node->reports, node->report_room * sizeof(*node->reports));
    }
    node->reports[node->report_count++] = (struct node_report){ reporter, now_ms };
    return true;
}

bool suspect_withdraw(struct node *node, const struct node *reporter)
{
    struct node_report *report = find_report(node, reporter);

    if (report == NULL)
        return false;
    *report = node->reports[--node->report_count];
    return true;
}

unsigned suspect_report_count(struct node *node, int64_t now_ms, int64_t timeout_ms)
{
    for (unsigned i = 0; i < node->report_count; i++) {
        if (now_ms - node->reports[i].at_ms > 2 * timeout_ms)
            node->reports[i--] = node->reports[--node->report_count];
    }
    return node->report_count;
}

void suspect_set_failed(struct node *node, int64_t now_ms)
{
    if (node->flags & (NODE_FAIL | NODE_MYSELF))
        return;
    node->flags = (uint16_t)((node->flags & ~NODE_PFAIL) | NODE_FAIL);
    node->fail_ms = now_ms;
}

bool suspect_judge(struct members *members, struct node *node, int64_t now_ms, int64_t timeout_ms)
{
    unsigned votes = node_is_voter(members->myself);

    if (!(node->flags & NODE_PFAIL) || node->flags & NODE_FAIL)
        return false;
    suspect_report_count(node, now_ms, timeout_ms);
    for (unsigned i = 0; i < node->report_count; i++)
        votes += node_is_voter(node->reports[i].reporter);
    if (votes < members_majority(members))
        return false;
    suspect_set_failed(node, now_ms);
    return true;
}

bool suspect_clear(struct node *node, int64_t now_ms, int64_t timeout_ms)
{
    if (!(node->flags & NODE_FAIL) || (node_is_voter(node) && now_ms - node->fail_ms <= 2 * timeout_ms))
        return false;
    node->flags &= (uint16_t)~NODE_FAIL;
    return true;
}

bool suspect_is_minority(const struct members *members)
{
    unsigned reached = 0;

    for (unsigned i = 0; i < members->count; i++)
        reached += node_is_voter(members->all[i]) && !(members->all[i]->flags & (NODE_PFAIL | NODE_FAIL));
    return reached < members_majority(members);
}
