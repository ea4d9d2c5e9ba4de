/*
 * access.c - see access.h.
 *
 * Comparing secrets: every rule is compared over the full size of its field, with no way
 * out early, so that time says neither how much of a guess was right nor which rule it
 * came near. Memory that held secrets is overwritten through a volatile pointer.
 */
#include "common/rpc/access.h"

#include <errno.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/rpc/server.h"

#include "common/base/banned.h"

enum { MAX_FILE_BYTES = 1 << 20, MAX_WORDS = 5 };

struct rule {
    enum hyd_access_kind kind;
    unsigned roles;
    bool any; /* user *, or a pattern that ends in '*' */
    uid_t uid;
    size_t n_secret;
    char name[HYD_ACCESS_NAME_BYTES];
    unsigned char secret[HYD_ACCESS_MAX_SECRET_BYTES]; /* zeros behind its end */
};

struct hyd_access {
    const struct hyd_alloc *alloc;
    struct rule *rules;
    size_t n_rules;
};

/* One line on its way. */
struct line {
    const char *file;
    unsigned number;
    const char *word[MAX_WORDS]; /* "" behind the last one */
    size_t n_words;
    struct hyd_error *err;
};

static void wipe(void *memory, size_t n_bytes)
{
    volatile unsigned char *at = memory;

    while (n_bytes-- > 0) {
        *at++ = 0;
    }
}

static hyd_status refuse(const struct line *line, const char *why, const char *word)
{
    return hyd_error_field(line->err, HYD_ERR_INVALID, "token_file", "%s:%u: %s%s%s%s",
                           line->file, line->number, why, word[0] != '\0' ? " '" : "",
                           word, word[0] != '\0' ? "'" : "");
}

static hyd_status parse_roles(const struct line *line, unsigned *ret_roles)
{
    static const struct {
        const char *name;
        unsigned role;
    } known[] = {
        {"reader", HYD_ROLE_READER},
        {"trainer", HYD_ROLE_TRAINER},
        {"worker", HYD_ROLE_WORKER},
    };
    unsigned roles = 0;

    for (const char *at = line->word[2];; at++) {
        const size_t n = strcspn(at, ",");
        size_t i = 0;

        while (i < 3 &&
               (strlen(known[i].name) != n || memcmp(known[i].name, at, n) != 0)) {
            i++;
        }
        if (i == 3) {
            return refuse(line, "roles are reader, trainer or worker, not",
                          line->word[2]);
        }
        roles |= known[i].role;
        at += n;
        if (*at == '\0') {
            *ret_roles = roles;
            return HYD_OK;
        }
    }
}

static hyd_status parse_secret(const struct line *line, struct rule *rule)
{
    const char *secret = line->word[3];
    const size_t n = strlen(secret);

    if (n < HYD_ACCESS_MIN_SECRET_BYTES || n > HYD_ACCESS_MAX_SECRET_BYTES) {
        return refuse(line, "a secret has 16 to 128 characters; that of",
                      line->word[1]);
    }
    for (size_t i = 0; i < n; i++) {
        if (secret[i] <= ' ' || secret[i] > '~') {
            return refuse(line, "a secret has printable characters only; that of",
                          line->word[1]);
        }
    }
    memcpy(rule->secret, secret, n);
    rule->n_secret = n;
    return HYD_OK;
}

static hyd_status parse_user(const struct line *line, struct rule *rule)
{
    const char *name = line->word[1];
    char *end = NULL;
    unsigned long number = 0;
    const struct passwd *user = NULL;

    if (strcmp(name, "*") == 0) {
        rule->any = true;
        return HYD_OK;
    }
    errno = 0;
    number = strtoul(name, &end, 10);
    if (*end == '\0' && errno == 0 && name[0] != '-' && number < UINT32_MAX) {
        rule->uid = (uid_t)number;
        return HYD_OK;
    }
    user = getpwnam(name);
    if (user == NULL) {
        return refuse(line, "this machine knows no user", name);
    }
    rule->uid = user->pw_uid;
    return HYD_OK;
}

static hyd_status parse_kind(const struct line *line, struct rule *rule)
{
    static const char *const kinds[] = {"token", "cert", "user"};
    size_t kind = 0;

    while (kind < 3 && strcmp(line->word[0], kinds[kind]) != 0) {
        kind++;
    }
    if (kind == 3) {
        return refuse(line, "a rule starts with token, cert or user, not",
                      line->word[0]);
    }
    rule->kind = (enum hyd_access_kind)kind;
    if (line->n_words != (rule->kind == HYD_ACCESS_TOKEN ? 4U : 3U)) {
        return refuse(line,
                      rule->kind == HYD_ACCESS_TOKEN
                          ? "expected: token NAME ROLES SECRET"
                          : "expected: cert PATTERN ROLES, or user NAME ROLES",
                      "");
    }
    if (strlen(line->word[1]) >= sizeof rule->name) {
        return refuse(line, "a name has at most 127 characters", "");
    }
    (void)snprintf(rule->name, sizeof rule->name, "%s", line->word[1]);
    return HYD_OK;
}

static hyd_status parse_pattern(const struct line *line, struct rule *rule)
{
    char *star = strchr(rule->name, '*');

    if (star != NULL && star[1] != '\0') {
        return refuse(line, "'*' may only end a name, as it does not in", rule->name);
    }
    if (star != NULL) {
        rule->any = true;
    }
    return HYD_OK;
}

static hyd_status parse_rule(const struct line *line, struct rule *rule)
{
    hyd_status status = parse_kind(line, rule);

    if (status == HYD_OK) {
        status = parse_roles(line, &rule->roles);
    }
    if (status != HYD_OK) {
        return status;
    }
    switch (rule->kind) {
    case HYD_ACCESS_TOKEN:
        return parse_secret(line, rule);
    case HYD_ACCESS_CERT:
        return parse_pattern(line, rule);
    case HYD_ACCESS_USER:
        return parse_user(line, rule);
    }
    return HYD_ERR_INTERNAL;
}

/* Cut a line into words, in place; false: too many. */
static bool cut(char *text, struct line *line)
{
    static const char blanks[] = " \t\r";

    line->n_words = 0;
    for (size_t i = 0; i < MAX_WORDS; i++) {
        line->word[i] = "";
    }
    text[strcspn(text, "#")] = '\0';
    for (text += strspn(text, blanks); *text != '\0'; text += strspn(text, blanks)) {
        if (line->n_words == MAX_WORDS) {
            return false;
        }
        line->word[line->n_words++] = text;
        text += strcspn(text, blanks);
        if (*text != '\0') {
            *text++ = '\0';
        }
    }
    return true;
}

static hyd_status add_line(struct hyd_access *access, char *text, struct line *line)
{
    struct rule *rules = NULL;
    hyd_status status = HYD_OK;

    if (!cut(text, line)) {
        return refuse(line, "the line has too many words", "");
    }
    if (line->n_words == 0) {
        return HYD_OK;
    }
    /* A new block each time, not resize: the old one must be wiped. */
    rules = hyd_alloc_zeroed(access->alloc, access->n_rules + 1, sizeof *rules);
    if (rules == NULL) {
        return hyd_error_set(line->err, HYD_ERR_NO_MEMORY, "no memory for %s",
                             line->file);
    }
    if (access->n_rules > 0) {
        memcpy(rules, access->rules, access->n_rules * sizeof *rules);
        wipe(access->rules, access->n_rules * sizeof *rules);
        hyd_alloc_free(access->alloc, access->rules);
    }
    access->rules = rules;
    status = parse_rule(line, &rules[access->n_rules]);
    access->n_rules++;
    return status;
}

hyd_status hyd_access_parse(const struct hyd_alloc *alloc, const char *name,
                            const char *text, struct hyd_access **ret_access,
                            struct hyd_error *err)
{
    struct line line = {.file = name, .err = err};
    struct hyd_access *access = hyd_alloc_zeroed(alloc, 1, sizeof *access);
    const size_t n_text = strlen(text);
    char *copy = hyd_alloc_text(alloc, text);
    hyd_status status = HYD_OK;

    if (access == NULL || copy == NULL) {
        status = hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for %s", name);
        goto out;
    }
    access->alloc = alloc;
    for (char *at = copy; at != NULL && status == HYD_OK;) {
        char *newline = strchr(at, '\n');

        if (newline != NULL) {
            *newline++ = '\0';
        }
        line.number++;
        status = add_line(access, at, &line);
        at = newline;
    }
    if (status == HYD_OK) {
        *ret_access = access;
        access = NULL;
    }
out:
    if (copy != NULL) {
        wipe(copy, n_text);
        hyd_alloc_free(alloc, copy);
    }
    if (access != NULL) {
        access->alloc = alloc;
        hyd_access_free(access);
    }
    return status;
}

static hyd_status read_all(FILE *file, const char *path, char *text,
                           struct hyd_error *err)
{
    struct stat st;
    size_t n = 0;

    if (fstat(fileno(file), &st) == 0 && (st.st_mode & S_IROTH) != 0) {
        return hyd_error_field(err, HYD_ERR_INVALID, "token_file",
                               "everybody may read %s: chmod o= it", path);
    }
    n = fread(text, 1, MAX_FILE_BYTES, file);
    if (ferror(file)) {
        return hyd_error_field(err, HYD_ERR_IO, "token_file", "cannot read %s: %s",
                               path, strerror(errno));
    }
    if (n == MAX_FILE_BYTES || memchr(text, '\0', n) != NULL) {
        return hyd_error_field(err, HYD_ERR_INVALID, "token_file",
                               "%s is no text below 1 MiB", path);
    }
    text[n] = '\0';
    return HYD_OK;
}

hyd_status hyd_access_read(const struct hyd_alloc *alloc, const char *path,
                           struct hyd_access **ret_access, struct hyd_error *err)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    hyd_status status = HYD_OK;

    if (file == NULL) {
        return hyd_error_field(err, HYD_ERR_IO, "token_file", "cannot read %s: %s",
                               path, strerror(errno));
    }
    (void)setvbuf(file, NULL, _IONBF, 0); /* no copy that is not wiped */
    text = hyd_alloc_zeroed(alloc, MAX_FILE_BYTES, 1);
    if (text == NULL) {
        (void)fclose(file);
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for %s", path);
    }
    status = read_all(file, path, text, err);
    if (status == HYD_OK) {
        status = hyd_access_parse(alloc, path, text, ret_access, err);
    }
    (void)fclose(file);
    wipe(text, MAX_FILE_BYTES);
    hyd_alloc_free(alloc, text);
    return status;
}

void hyd_access_free(struct hyd_access *access)
{
    const struct hyd_alloc *alloc = access != NULL ? access->alloc : NULL;

    if (access == NULL) {
        return;
    }
    if (access->rules != NULL) {
        wipe(access->rules, access->n_rules * sizeof *access->rules);
        hyd_alloc_free(alloc, access->rules);
    }
    hyd_alloc_free(alloc, access);
}

bool hyd_access_has(const struct hyd_access *access, enum hyd_access_kind kind)
{
    for (size_t i = 0; access != NULL && i < access->n_rules; i++) {
        if (access->rules[i].kind == kind) {
            return true;
        }
    }
    return false;
}

/* 1 when equal, else 0, in a time that depends on neither. */
static unsigned same_secret(const struct rule *rule, const unsigned char *secret,
                            size_t n_bytes)
{
    unsigned difference = (unsigned)(rule->n_secret ^ n_bytes);

    for (size_t i = 0; i < HYD_ACCESS_MAX_SECRET_BYTES; i++) {
        difference |= (unsigned)(rule->secret[i] ^ secret[i]);
    }
    /* 0 -> 1; everything else has bits, and the top bit of (d - 1) is then clear. */
    return (difference - 1U) >> 31;
}

unsigned hyd_access_token(const struct hyd_access *access, const void *secret,
                          size_t n_bytes, const char **ret_name)
{
    unsigned char padded[HYD_ACCESS_MAX_SECRET_BYTES] = {0};
    unsigned roles = 0;
    size_t found = SIZE_MAX;

    if (access == NULL || n_bytes > sizeof padded || n_bytes == 0) {
        return 0;
    }
    memcpy(padded, secret, n_bytes);
    for (size_t i = 0; i < access->n_rules; i++) {
        const struct rule *rule = &access->rules[i];
        const unsigned same = same_secret(rule, padded, n_bytes) &
                              (unsigned)(rule->kind == HYD_ACCESS_TOKEN);

        roles |= rule->roles & (0U - same);
        found = same != 0 && found == SIZE_MAX ? i : found;
    }
    if (found != SIZE_MAX) {
        *ret_name = access->rules[found].name;
    }
    wipe(padded, sizeof padded);
    return roles;
}

static bool fits(const struct rule *rule, const char *subject, size_t n_bytes)
{
    const size_t n = strlen(rule->name);

    if (rule->any) {
        return n_bytes >= n - 1 && memcmp(rule->name, subject, n - 1) == 0;
    }
    return n_bytes == n && memcmp(rule->name, subject, n) == 0;
}

unsigned hyd_access_cert(const struct hyd_access *access, const char *subject,
                         size_t n_bytes, const char **ret_name)
{
    unsigned roles = 0;

    for (size_t i = 0; access != NULL && i < access->n_rules; i++) {
        const struct rule *rule = &access->rules[i];

        if (rule->kind == HYD_ACCESS_CERT && fits(rule, subject, n_bytes)) {
            *ret_name = roles == 0 ? rule->name : *ret_name;
            roles |= rule->roles;
        }
    }
    return roles;
}

unsigned hyd_access_user(const struct hyd_access *access, uid_t uid,
                         const char **ret_name)
{
    unsigned roles = 0;

    for (size_t i = 0; access != NULL && i < access->n_rules; i++) {
        const struct rule *rule = &access->rules[i];

        if (rule->kind == HYD_ACCESS_USER && (rule->any || rule->uid == uid)) {
            *ret_name = roles == 0 ? rule->name : *ret_name;
            roles |= rule->roles;
        }
    }
    return roles;
}
