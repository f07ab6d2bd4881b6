#include "engine/mail.h"

#include "call/client.h"
#include "engine/worker.h"

void mailbox_init(struct mailbox *mailbox)
{
    *mailbox = (struct mailbox){ .ring = NULL };
    mutex_init(&mailbox->lock);
}

void mailbox_release(struct mailbox *mailbox)
{
    mutex_release(&mailbox->lock);
}

void mailbox_ring(struct mailbox *mailbox)
{
    if (mailbox->ring != NULL)
        mailbox->ring(mailbox->ring_context);
}

struct worker *client_enqueue(struct client *client)
{
    struct mailbox *mailbox = &client->worker->mailbox;
    bool is_first;

    mutex_lock(&mailbox->lock);
    if (client->loads.ready_queued) {
        mutex_unlock(&mailbox->lock);
        return NULL;
    }
    client->loads.ready_queued = true;
    client->loads.ready_next = NULL;
    is_first = mailbox->ready_first == NULL;
    if (mailbox->ready_last != NULL)
        mailbox->ready_last->loads.ready_next = client;
    else
        mailbox->ready_first = client;
    mailbox->ready_last = client;
    mutex_unlock(&mailbox->lock);
    return is_first && mailbox->ring != NULL ? client->worker : NULL;
}

void client_wake(struct client *client)
{
    struct worker *worker = client_enqueue(client);

    if (worker != NULL)
        mailbox_ring(&worker->mailbox);
}

void mailbox_post(struct mailbox *mailbox, struct mail *mail)
{
    mutex_lock(&mailbox->lock);
    mail->next = NULL;
    if (mailbox->last != NULL)
        mailbox->last->next = mail;
    else
        mailbox->first = mail;
    mailbox->last = mail;
    mutex_unlock(&mailbox->lock);
    mailbox_ring(mailbox);
}

void mailbox_notify(struct mailbox *mailbox, uint32_t reasons)
{
    bool first;

    mutex_lock(&mailbox->lock);
    first = mailbox->ended == 0;
    mailbox->ended |= reasons;
    mutex_unlock(&mailbox->lock);
    if (first)
        mailbox_ring(mailbox);
}

void mailbox_empty(struct mailbox *mailbox, struct mail_delivery *delivery)
{
    mutex_lock(&mailbox->lock);
    *delivery = (struct mail_delivery){ mailbox->ready_last, mailbox->first, mailbox->ended };
    mailbox->first = mailbox->last = NULL;
    mailbox->ended = 0;
    mutex_unlock(&mailbox->lock);
}

/* Clients leave the queue only here, so the last one of the delivery is met. */
struct client *mailbox_next_ready(struct mailbox *mailbox, struct mail_delivery *delivery)
{
    struct client *client;

    if (delivery->ready_last == NULL)
        return NULL;
    mutex_lock(&mailbox->lock);
    client = mailbox->ready_first;
    mailbox->ready_first = client->loads.ready_next;
    if (mailbox->ready_first == NULL)
        mailbox->ready_last = NULL;
    client->loads.ready_queued = false;
    mutex_unlock(&mailbox->lock);
    if (client == delivery->ready_last)
        delivery->ready_last = NULL;
    return client;
}

void mailbox_ring_for_rest(struct mailbox *mailbox)
{
    bool is_empty;

    mutex_lock(&mailbox->lock);
    is_empty = mailbox->ready_first == NULL;
    mutex_unlock(&mailbox->lock);
    if (!is_empty)
        mailbox_ring(mailbox);
}

bool mailbox_refers_to(struct mailbox *mailbox, const struct client *client)
{
    bool queued;

    mutex_lock(&mailbox->lock);
    queued = client->loads.ready_queued;
    mutex_unlock(&mailbox->lock);
    return queued;
}
