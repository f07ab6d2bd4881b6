#include "options.h"

#include <stdlib.h>
#include <unistd.h>

#include "../common/command_line.h"

#define OPTION(kind_, letter_, name_, argument_, field, help_, ...) \
    { .kind = OPTION_##kind_, .letter = letter_, .name = name_, .argument = argument_, \
      .offset = offsetof(struct options, field), .help = help_, __VA_ARGS__ }
#define LIMITS(least_, most_) .least = least_, .most = most_

static const struct option_row rows[] = {
    { .kind = OPTION_HEADING, .help = "Server" },
    OPTION(TEXT, 'h', "host", "HOST", host, "name or address (127.0.0.1)"),
    OPTION(COUNT, 'p', "port", "PORT", port, "TCP port (6379)", LIMITS(1, 65535)),
    OPTION(TEXT, 's', "socket", "PATH", socket, "Unix socket instead of host and port"),
    OPTION(TEXT, 'a', "pass", "PASSWORD", password, "password for AUTH (default: what REDISCLI_AUTH has in the environment)"),
    OPTION(TEXT, 0, "user", "NAME", user, "ACL user for AUTH"),
    OPTION(FLAG, 0, "tls", NULL, tls, "connect with TLS"),
    OPTION(TEXT, 0, "cacert", "FILE", ca_cert, "CA certificates that the server's has to be signed by (the system's)"),
    OPTION(TEXT, 0, "cacertdir", "DIR", ca_cert_dir, "the same, as a directory"),
    OPTION(TEXT, 0, "cert", "FILE", cert, "certificate of this client"),
    OPTION(TEXT, 0, "key", "FILE", key, "its private key"),
    OPTION(TEXT, 0, "sni", "NAME", server_name, "server name to ask for (the host)"),

    { .kind = OPTION_HEADING, .help = "Reports" },
    OPTION(REAL, 'i', "interval", "SECONDS", interval_s, "time between two readings (1)", LIMITS(0.1, 3600)),
    OPTION(COUNT, 'n', "reports", "N", reports, "print N reports as plain lines and end", LIMITS(1, 1e9)),
    OPTION(FLAG, 0, "once", NULL, once, "print one report as plain lines and end"),
    OPTION(FLAG, 0, "plain", NULL, plain, "print plain lines, also on a terminal"),
    OPTION(FLAG, 0, "help", NULL, help, "show this help"),
    OPTION(FLAG, 'v', "version", NULL, version, "show the version"),
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

/* Returns what is wrong with the combination of options, or NULL. */
static const char *settle(struct options *options)
{
    if (options->once && options->reports > 0)
        return "--once and --reports can't be used together";
    if (options->user && !options->password)
        return "--user requires --pass or REDISCLI_AUTH";
    if ((options->cert == NULL) != (options->key == NULL))
        return "--cert and --key require each other";
    if (!options->tls && (options->ca_cert || options->ca_cert_dir || options->cert || options->server_name))
        return "--cacert, --cacertdir, --cert, --key and --sni require --tls";
    if (options->once)
        options->reports = 1;
    if (options->reports > 0 || !isatty(STDOUT_FILENO))
        options->plain = true;
    return NULL;
}

bool options_parse(struct options *options, int argc, char **argv, char *error, size_t error_size)
{
    const char *problem;
    int at = 1;

    *options = (struct options){ .host = "127.0.0.1", .port = 6379, .password = getenv("REDISCLI_AUTH"), .interval_s = 1 };
    if (!command_line_parse(rows, ROWS, options, argv, &at, error, error_size))
        return false;
    problem = at < argc ? "there are no arguments besides options (see --help)" : settle(options);
    if (problem && !options->help && !options->version)
        snprintf(error, error_size, "%s", problem);
    return problem == NULL || options->help || options->version;
}

void options_help(FILE *out)
{
    fputs("Usage: kelvin-top [option ...]\n"
          "Shows what a Kelvin server does, each second: hit ratio, requests, memory, loads, demotion, checkpoints, replication, commands.\n"
          "Works with a Redis server, too, as far as it has the numbers. q ends it.\n", out);
    command_line_help(rows, ROWS, out);
}
