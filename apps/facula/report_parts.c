/* Text, images and matrices as HTML. */
#include "names.h"
#include "report.h"
#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

static const char *escape(unsigned char c) {
    switch (c) {
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '&': return "&amp;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    }
    return c < 0x20 && c != '\n' && c != '\t' ? "&#xfffd;" : NULL;
}

void report_text(FILE *f, const char *text) {
    for (const char *p = text; *p;) {
        const size_t n = utf8_length(p);
        const char *instead = n == 0 ? "&#xfffd;" : escape((unsigned char)*p);
        if (instead)
            fputs(instead, f);
        else
            fwrite(p, 1, n, f);
        p += n ? n : 1;
    }
}

void report_section(FILE *f, const char *title) {
    fputs("<section><h2>", f);
    report_text(f, title);
    fputs("</h2>\n", f);
}

/* ---- matrices of confusion ---- */

static void confusion_row(FILE *f, const int64_t *row, int64_t classes, int64_t i) {
    int64_t sum = 0;
    for (int64_t k = 0; k < classes; k++) sum += row[k];
    for (int64_t k = 0; k < classes; k++) {
        const double part = sum ? (double)row[k] / (double)sum : 0;
        fprintf(f, "<td style='background:rgba(var(--heat),%.3f)%s'>", 0.06 + 0.74 * part,
                part > 0.6 ? ";color:#fff" : "");
        if (row[k] || k == i) fprintf(f, "%lld", (long long)row[k]);
        fputs("</td>", f);
    }
    if (sum)
        fprintf(f, "<td class='n'>%.1f %%</td>", 100 * (double)row[i] / (double)sum);
    else
        fputs("<td class='n'>-</td>", f);
}

void report_confusion(FILE *f, const int64_t *counts, int64_t classes, const char *(*name)(const void *of, int64_t k),
                      const void *of) {
    fputs("<table class='confusion'><tr><th></th>", f);
    for (int64_t k = 0; k < classes; k++) {
        fputs("<th>", f);
        report_text(f, name(of, k));
        fputs("</th>", f);
    }
    fputs("<th>found</th></tr>\n", f);
    for (int64_t i = 0; i < classes; i++) {
        fputs("<tr><th>", f);
        report_text(f, name(of, i));
        fputs("</th>", f);
        confusion_row(f, counts + i * classes, classes, i);
        fputs("</tr>\n", f);
    }
    fputs("</table>\n<p class='note'>Rows are true classes, columns what the model took them for.</p>\n", f);
}

/* ---- images ---- */

static void put_base64(FILE *f, const uint8_t *v, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        const unsigned b1 = i + 1 < n ? v[i + 1] : 0, b2 = i + 2 < n ? v[i + 2] : 0,
                       three = (unsigned)v[i] << 16 | b1 << 8 | b2;
        fputc(digits[three >> 18], f);
        fputc(digits[three >> 12 & 63], f);
        fputc(i + 1 < n ? digits[three >> 6 & 63] : '=', f);
        fputc(i + 2 < n ? digits[three & 63] : '=', f);
    }
}

static void put_le(uint8_t *at, uint32_t v, int n) {
    for (int i = 0; i < n; i++) at[i] = (uint8_t)(v >> 8 * i);
}

/* A BMP file: a head of 54 bytes, then rows from the lowest up, blue, green and red, each row filled up to four bytes. */
void report_image(FILE *f, const uint8_t *pixels, int64_t channels, int64_t height, int64_t width) {
    const size_t row = ((size_t)width * 3 + 3) / 4 * 4, size = 54 + row * (size_t)height;
    uint8_t *v = calloc(size, 1);
    if (!v) return;
    memcpy(v, "BM", 2);
    put_le(v + 2, (uint32_t)size, 4);
    put_le(v + 10, 54, 4);
    put_le(v + 14, 40, 4);
    put_le(v + 18, (uint32_t)width, 4);
    put_le(v + 22, (uint32_t)height, 4);
    put_le(v + 26, 1, 2);
    put_le(v + 28, 24, 2);
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++)
            for (int64_t c = 0; c < 3; c++) {
                const int64_t from = channels == 1 ? 0 : 2 - c;
                v[54 + (size_t)(height - 1 - y) * row + (size_t)x * 3 + (size_t)c] =
                    pixels[(from * height + y) * width + x];
            }
    fputs("<img alt='' src='data:image/bmp;base64,", f);
    put_base64(f, v, size);
    fputs("'>", f);
    free(v);
}
