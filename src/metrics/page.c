#include "metrics/page.h"

#include <stdint.h>
#include <string.h>

#include "base/buffer.h"
#include "base/check.h"
#include "base/digest.h"

/* The Makefile makes this file again when page.html changes. */
__asm__(
    ".pushsection .rodata\n"
    ".global kelvin_page_begin, kelvin_page_end\n"
    "kelvin_page_begin:\n"
    ".incbin \"src/metrics/page.html\"\n"
    "kelvin_page_end:\n"
    ".popsection\n");
extern const char kelvin_page_begin[] __attribute__((visibility("hidden"))), kelvin_page_end[] __attribute__((visibility("hidden")));

struct bytes page_html(void)
{
    return bytes_of(kelvin_page_begin, (size_t)((uintptr_t)kelvin_page_end - (uintptr_t)kelvin_page_begin));
}

static void append_base64(struct buffer *out, const unsigned char digest[SHA256_SIZE])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (int at = 0; at < SHA256_SIZE; at += 3) {
        unsigned second = at + 1 < SHA256_SIZE ? digest[at + 1] : 0, third = at + 2 < SHA256_SIZE ? digest[at + 2] : 0;
        unsigned group = (unsigned)digest[at] << 16 | second << 8 | third;

        buffer_append_u8(out, (uint8_t)digits[group >> 18]);
        buffer_append_u8(out, (uint8_t)digits[group >> 12 & 63]);
        buffer_append_u8(out, (uint8_t)(at + 1 < SHA256_SIZE ? digits[group >> 6 & 63] : '='));
        buffer_append_u8(out, (uint8_t)(at + 2 < SHA256_SIZE ? digits[group & 63] : '='));
    }
}

/* Appends the hash of the text between the two words, which are there once. */
static void append_hash(struct buffer *out, struct bytes html, const char *begin, const char *end)
{
    unsigned char digest[SHA256_SIZE];
    const char *first = memmem(html.data, html.size, begin, strlen(begin)), *last;

    CHECK(first != NULL);
    first += strlen(begin);
    last = memmem(first, (size_t)(html.data + html.size - first), end, strlen(end));
    CHECK(last != NULL);
    digest_sha256(bytes_of(first, (size_t)(last - first)), digest);
    buffer_append_string(out, "'sha256-");
    append_base64(out, digest);
    buffer_append_string(out, "'; ");
}

void page_policy(struct bytes html, struct buffer *out)
{
    buffer_append_string(out, "default-src 'none'; script-src ");
    append_hash(out, html, "<script>", "</script>");
    buffer_append_string(out, "style-src ");
    append_hash(out, html, "<style>", "</style>");
    buffer_append_string(out, "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
}
