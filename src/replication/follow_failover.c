/* FAILOVER, on both sides: handing the role over, and taking it. */
#include "replication/follow_private.h"

enum follow_ask follow_hand_over(struct follow *follow, const char *host, int port, uint64_t lsn)
{
    enum follow_ask result = FOLLOW_ASK_BEGUN;

    mutex_lock(&follow->turn);
    if (follow->host[0] != '\0') {
        result = FOLLOW_ASK_NO_PRIMARY;
    } else if (!follow_set_role(follow, true, lsn)) {
        result = FOLLOW_ASK_LONGER;
    } else {
        follow_note_primary(follow, host, port);
        follow->hand_tries = 0;
        follow->hand_is_uncertain = false;
        follow_set_hand(follow, FOLLOW_HAND_ASKED);
        if (!follow_start_link(follow))
            follow_set_hand(follow, FOLLOW_HAND_REFUSED);
    }
    mutex_unlock(&follow->turn);
    return result;
}

enum follow_hand follow_hand(const struct follow *follow)
{
    return (enum follow_hand)follow->hand;
}

/* The reply may come until the link has ended. */
static bool may_take_back(struct follow *follow) REQUIRES(follow->turn);
static bool may_take_back(struct follow *follow)
{
    if (follow->hand == FOLLOW_HAND_TAKEN || follow->hand == FOLLOW_HAND_NONE)
        return false;
    if (!follow_end_link(follow, FOLLOW_END_NOW))
        return false;               /* it has taken over: its data is being loaded */
    if (follow->hand != FOLLOW_HAND_TAKEN)
        return true;
    follow_start_link(follow);
    return false;
}

bool follow_take_back(struct follow *follow)
{
    bool can;

    mutex_lock(&follow->turn);
    can = may_take_back(follow);
    if (can) {
        follow_note_primary(follow, NULL, 0);
        follow_set_role(follow, false, FOLLOW_ANY_LSN);
    }
    follow_set_hand(follow, FOLLOW_HAND_NONE);
    mutex_unlock(&follow->turn);
    return can;
}

static bool has_history(struct follow *follow, struct bytes id)
{
    struct history_point now;

    history_point(&follow->engine->history, &now);
    return bytes_is(id, now.identity.id);
}

enum follow_take_over follow_take_over(struct follow *follow, struct bytes id)
{
    enum follow_take_over result = FOLLOW_TAKEN_OVER;

    mutex_lock(&follow->turn);
    if (follow->host[0] == '\0') {
        result = FOLLOW_IS_PRIMARY;
    } else if (!has_history(follow, id) || !follow_end_link(follow, FOLLOW_END_APPLIED)) {
        result = FOLLOW_HAS_OTHER_ID;
    } else {
        follow_promote(follow);
    }
    mutex_unlock(&follow->turn);
    if (result == FOLLOW_TAKEN_OVER)
        log_write(follow_log(follow), LOG_LEVEL_NOTICE, "MASTER MODE enabled: the primary has handed its role over (PSYNC with FAILOVER)");
    return result;
}
