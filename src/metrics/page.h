/* Page: the status page, page.html, which is part of the program. It has its script and its style in it, asks for /status.json, and needs nothing else. */
#ifndef KELVIN_METRICS_PAGE_H
#define KELVIN_METRICS_PAGE_H

#include "base/bytes.h"

struct buffer;

struct bytes page_html(void);

/* Appends its Content-Security-Policy: only the script and the style of these bytes, by their SHA-256, and only requests to where the page came from. */
void page_policy(struct bytes html, struct buffer *out);

#endif
