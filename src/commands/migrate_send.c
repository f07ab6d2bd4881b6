#include "commands/migrate_send.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "replication/migrate_cache.h"
#include "value/codec.h"
#include "value/string.h"

enum { ROUND_BYTES = 4 * 1024 * 1024, COPIED_MAX = 64 * 1024, STRING_FRAME = 32 };

static void append_array(struct buffer *out, int count)
{
    buffer_append_format(out, "*%d\r\n", count);
}

static void append_bulk(struct buffer *out, struct bytes bytes)
{
    buffer_append_format(out, "$%zu\r\n", bytes.size);
    buffer_append_bytes(out, bytes);
    buffer_append(out, "\r\n", 2);
}

static void write_preface(struct migration *migration, const struct migration_options *options)
{
    struct buffer *out = &migration->preface;

    if (options->password.data != NULL) {
        bool has_user = options->user.data != NULL;

        migrate_link_append(out, (struct bytes[]){ BYTES("AUTH"), has_user ? options->user : options->password, options->password }, has_user ? 3 : 2);
        migration->preface_count++;
    }
    migrate_link_append(out, (struct bytes[]){ BYTES("SELECT"), options->db }, 2);
    migration->preface_count++;
}

static struct buffer *add_piece(struct migration *migration)
{
    struct buffer *piece;

    migration->pieces = mem_realloc(migration->pieces, (size_t)(migration->piece_count + 1) * sizeof(*migration->pieces));
    piece = &migration->pieces[migration->piece_count++];
    buffer_init(piece);
    return piece;
}

static void release_pieces(struct migration *migration)
{
    for (int i = 0; i < migration->piece_count; i++)
        buffer_release(&migration->pieces[i]);
    migration->piece_count = 0;
}

void migration_destroy(struct migration *migration)
{
    if (migration_is_over(migration))
        migrate_link_close(&migration->link);
    else
        migrate_cache_keep(migration->cache, buffer_bytes(&migration->link_name), &migration->link);
    buffer_release(&migration->link_name);
    release_pieces(migration);
    mem_free(migration->pieces);
    buffer_release(&migration->preface);
    mem_free(migration->host);
    mem_free(migration->port);
    mem_free(migration->sent);
    mem_free(migration->accepted);
    mem_free(migration);
}

static void release_job(struct job *job)
{
    migration_destroy((struct migration *)job);
}

/* The first error is the one that is reported. */
static void keep_error(struct migration *migration, struct bytes line)
{
    if (migration->error[0] != '\0')
        return;
    memcpy(migration->error, line.data + 1, line.size - 1);
    migration->error[line.size - 1] = '\0';
}

/* Reads the reply of a command that replies OK or an error. A line that is neither is not from a server that has understood: *accepted is
 * false then, too, and the link has failed. */
static enum migrate_link_result read_reply(struct migration *migration, bool *accepted)
{
    struct bytes line;
    enum migrate_link_result result = migrate_link_read_line(&migration->link, &line);

    *accepted = false;
    if (result != MIGRATE_LINK_OK)
        return result;
    migration->link_is_old = false;
    if (bytes_equal(line, BYTES("+OK"))) {
        *accepted = true;
        return MIGRATE_LINK_OK;
    }
    if (line.size < 2 || line.data[0] != '-')
        return MIGRATE_LINK_READ_FAILED;
    keep_error(migration, line);
    return MIGRATE_LINK_OK;
}

/* If it is refused nothing else is sent: a key would go to a wrong database. */
static enum migrate_link_result send_preface(struct migration *migration)
{
    enum migrate_link_result result = migrate_link_write(&migration->link, buffer_bytes(&migration->preface));
    bool accepted;

    for (int i = 0; i < migration->preface_count && result == MIGRATE_LINK_OK; i++) {
        result = read_reply(migration, &accepted);
        migration->refused = migration->refused || !accepted;
    }
    return result;
}

static enum migrate_link_result open_link(struct migration *migration, const struct engine *engine)
{
    enum migrate_link_result result = migrate_link_open(&migration->link, engine, migration->host, migration->port);

    return result == MIGRATE_LINK_OK ? send_preface(migration) : result;
}

static enum migrate_link_result take_link(struct migration *migration, const struct engine *engine)
{
    int64_t timeout_ms = migration->link.timeout_ms;

    if (!migrate_cache_take(migration->cache, buffer_bytes(&migration->link_name), &migration->link))
        return open_link(migration, engine);
    migration->link.timeout_ms = timeout_ms;
    migration->link_is_old = true;
    return MIGRATE_LINK_OK;
}

static enum migrate_link_result send_round(struct migration *migration)
{
    enum migrate_link_result result = MIGRATE_LINK_OK;

    for (int i = 0; i < migration->piece_count && result == MIGRATE_LINK_OK; i++)
        result = migrate_link_write(&migration->link, buffer_bytes(&migration->pieces[i]));
    for (int i = 0; i < migration->sent_count && result == MIGRATE_LINK_OK; i++)
        result = read_reply(migration, &migration->accepted[migration->sent[i]]);
    return result;
}

/* The other server may have lost a connection of the cache without a word, or be about to close it: if it ends before any reply the round is sent once more by a new
 * one. What has taken all the time is not tried again. */
static void send_first_round(struct migration *migration, const struct engine *engine)
{
    int64_t begin_us = clock_mono_us();

    migration->result = take_link(migration, engine);
    if (!migration_is_over(migration))
        migration->result = send_round(migration);
    if (migration->result == MIGRATE_LINK_OK || !migration->link_is_old || clock_mono_us() - begin_us >= migration->link.timeout_ms * 1000)
        return;
    migrate_link_close(&migration->link);
    migration->result = open_link(migration, engine);
    if (!migration_is_over(migration))
        migration->result = send_round(migration);
}

static void run_job(struct job *job, struct engine *engine)
{
    struct migration *migration = (struct migration *)job;

    if (migrate_link_is_open(&migration->link))
        migration->result = send_round(migration);
    else
        send_first_round(migration, engine);
    if (migration->result != MIGRATE_LINK_OK)
        migrate_link_close(&migration->link);
}

struct migration *migration_create(const struct migration_options *options, int key_count)
{
    struct migration *migration = mem_zalloc(sizeof(*migration));

    migration->job = (struct job){ .run = run_job, .release = release_job };
    migration->copies = options->copies;
    migration->replaces = options->replaces;
    migration->asks = options->asks;
    migration->host = mem_string(options->host);
    migration->port = mem_string(options->port);
    migration->sent = mem_alloc((size_t)key_count * sizeof(*migration->sent));
    migration->accepted = mem_zalloc((size_t)key_count * sizeof(*migration->accepted));
    migrate_link_init(&migration->link, options->timeout_ms);
    write_preface(migration, options);
    migration->cache = options->cache;
    buffer_append_bytes(&migration->link_name, options->host);
    buffer_append_format(&migration->link_name, " %s %s ", migration->port, options->has_tls ? "tls" : "plain");
    buffer_append_bytes(&migration->link_name, buffer_bytes(&migration->preface));
    return migration;
}

/* A large payload becomes a piece of its own. */
static void append_payload(struct migration *migration, const struct value *value)
{
    struct buffer payload = { 0 }, *out = &migration->pieces[migration->piece_count - 1];

    if (value->type == VALUE_STRING)
        buffer_reserve_exact(&payload, string_size(value) + STRING_FRAME);
    codec_dump(value, &payload);
    buffer_append_format(out, "$%zu\r\n", payload.size);
    migration->round_size += payload.size;
    if (payload.size <= COPIED_MAX) {
        buffer_append_bytes(out, buffer_bytes(&payload));
        buffer_release(&payload);
    } else {
        *add_piece(migration) = payload;
        out = add_piece(migration);
    }
    buffer_append(out, "\r\n", 2);
}

void migration_add(struct migration *migration, int index, struct bytes key, const struct value *value, int64_t ttl_ms)
{
    struct buffer *out = migration->piece_count > 0 ? &migration->pieces[migration->piece_count - 1] : add_piece(migration);
    char digits[TEXT_INT_SIZE];

    append_array(out, migration->replaces ? 5 : 4);
    append_bulk(out, migration->asks ? BYTES("RESTORE-ASKING") : BYTES("RESTORE"));
    append_bulk(out, key);
    append_bulk(out, bytes_of(digits, text_of_int(ttl_ms, digits)));
    append_payload(migration, value);
    if (migration->replaces)
        append_bulk(&migration->pieces[migration->piece_count - 1], BYTES("REPLACE"));
    migration->round_size += key.size;
    migration->sent[migration->sent_count++] = index;
    migration->found_count++;
}

bool migration_is_full(const struct migration *migration)
{
    return migration->round_size >= ROUND_BYTES;
}

void migration_end_round(struct migration *migration)
{
    release_pieces(migration);
    migration->round_size = 0;
    migration->sent_count = 0;
}

bool migration_is_over(const struct migration *migration)
{
    return migration->result != MIGRATE_LINK_OK || migration->refused;
}
