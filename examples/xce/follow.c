/* Follows the feed of dynres and prints host, resource and value: what XCE's collect_resval() asks for.
 *
 * usage: follow ENDPOINT [REQUIREMENT]       such as: follow tcp://127.0.0.1:5752 'bigmem && mem >= 2 GB'
 *
 * A value of a shared resource comes once for its pool, and here is printed for each host that draws on it.
 * Lines end with "(stale)" or "(unavailable)" where there is no value. docs/wire.md describes the records.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

enum { BEAT_S = 5, SILENCE_S = 15, FIELDS = 16, LOOK_MS = 200 };

/* Which host draws on which instance of which shared resource. */
struct draw {
    char *host;
    int index;
    char *instance;
};

/* What each instance of a shared resource has, for hosts that come later. */
struct pool {
    int index;
    char *instance, *name, *state, *value;
};

static struct draw *draws;
static size_t n_draws;
static struct pool *pools;
static size_t n_pools;
static volatile sig_atomic_t ended;

static void end(int number)
{
    (void)number;
    ended = 1;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *sure(void *memory)
{
    if (!memory) {
        perror("follow");
        exit(1);
    }
    return memory;
}

/* Forget the draws of one host, or of all for NULL. */
static void forget(const char *host)
{
    size_t kept = 0;
    for (size_t i = 0; i < n_draws; i++) {
        if (host && strcmp(draws[i].host, host) != 0) {
            draws[kept++] = draws[i];
            continue;
        }
        free(draws[i].host);
        free(draws[i].instance);
    }
    n_draws = kept;
}

static void remember(const char *host, int index, const char *instance)
{
    draws = sure(realloc(draws, (n_draws + 1) * sizeof *draws));
    draws[n_draws++] = (struct draw){sure(strdup(host)), index, sure(strdup(instance))};
}

static void forget_pools(void)
{
    for (size_t i = 0; i < n_pools; i++) {
        free(pools[i].instance);
        free(pools[i].name);
        free(pools[i].state);
        free(pools[i].value);
    }
    n_pools = 0;
}

static void print_value(const char *host, const char *name, const char *state, const char *value)
{
    if (strcmp(state, "fresh") == 0)
        printf("%s %s %s\n", host, name, value);
    else
        printf("%s %s (%s)\n", host, name, state);
}

static struct pool *find_pool(int index, const char *instance)
{
    for (size_t i = 0; i < n_pools; i++)
        if (pools[i].index == index && strcmp(pools[i].instance, instance) == 0)
            return &pools[i];
    return NULL;
}

/* host HOST STATE CLOSED SATISFIES POOLS */
static void take_host(char *const *f, int n)
{
    forget(f[1]);
    if (strcmp(f[4], "1") != 0) {
        printf("%s gone\n", f[1]);
        return;
    }
    char *rest = NULL;
    for (char *pool = n > 5 ? strtok_r(f[5], " ", &rest) : NULL; pool; pool = strtok_r(NULL, " ", &rest)) {
        char *instance = strchr(pool, '=');
        if (instance) {
            *instance = '\0';
            remember(f[1], atoi(pool), instance + 1);
            struct pool *known = find_pool(atoi(pool), instance + 1);
            if (known)
                print_value(f[1], known->name, known->state, known->value);
        }
    }
}

/* pool INSTANCE INDEX NAME STATE VALUE ... */
static void take_pool(char *const *f)
{
    int index = atoi(f[2]);
    struct pool *known = find_pool(index, f[1]);
    if (!known) {
        pools = sure(realloc(pools, (n_pools + 1) * sizeof *pools));
        known = &pools[n_pools++];
        *known = (struct pool){index, sure(strdup(f[1])), sure(strdup(f[3])), NULL, NULL};
    }
    free(known->state);
    free(known->value);
    known->state = sure(strdup(f[4]));
    known->value = sure(strdup(f[5]));
    for (size_t i = 0; i < n_draws; i++)
        if (draws[i].index == index && strcmp(draws[i].instance, f[1]) == 0)
            print_value(draws[i].host, f[3], f[4], f[5]);
}

/* One record; false when the feed is refused. */
static bool take(char *line)
{
    char *f[FIELDS];
    int n = 0;
    for (char *field; n < FIELDS && (field = strsep(&line, "\t"));)
        f[n++] = field;
    if (strcmp(f[0], "snapshot") == 0) {
        forget(NULL);
        forget_pools();
    } else if (strcmp(f[0], "host") == 0 && n >= 5)
        take_host(f, n);
    else if (strcmp(f[0], "value") == 0 && n >= 6)
        print_value(f[1], f[3], f[4], f[5]);
    else if (strcmp(f[0], "pool") == 0 && n >= 6)
        take_pool(f);
    else if (strcmp(f[0], "complete") == 0)
        puts("complete");
    else if (strcmp(f[0], "lost") == 0)
        puts("lost");
    else if (strcmp(f[0], "refused") == 0 && n >= 3) {
        fprintf(stderr, "follow: %s\n", f[2]);
        return false;
    }
    return true;
}

/* One message: header, then records. 0: taken, 1: messages are missing, -1: refused. */
static int take_message(char *text, long *seq)
{
    char *header = strsep(&text, "\n");
    long number = 0;
    if (sscanf(header, "dynres-feed\t1\t%*s\t%ld", &number) != 1 || number != *seq + 1)
        return 1;
    *seq = number;
    for (char *line; (line = strsep(&text, "\n"));)
        if (*line && !take(line))
            return -1;
    return fflush(stdout) == 0 ? 0 : -1;
}

static bool say(void *socket, const char *format, ...)
{
    char text[8192];
    va_list given;
    va_start(given, format);
    int size = vsnprintf(text, sizeof text, format, given);
    va_end(given);
    return size > 0 && (size_t)size < sizeof text && zmq_send(socket, text, (size_t)size, ZMQ_DONTWAIT) >= 0;
}

/* Follow on one connection, until it is lost (0), refused or ended (1). */
static int follow(void *socket, const char *where)
{
    long seq = 0;
    double heard = now(), beaten = heard;
    if (!say(socket, "dynres-feed\t1\twatch\t%s", where))
        return 1;
    while (!ended && now() - heard < SILENCE_S) {
        if (now() - beaten >= BEAT_S) {
            say(socket, "dynres-feed\t1\tbeat");
            beaten = now();
        }
        zmq_pollitem_t item = {.socket = socket, .events = ZMQ_POLLIN};
        if (zmq_poll(&item, 1, LOOK_MS) <= 0)
            continue;
        zmq_msg_t message;
        zmq_msg_init(&message);
        if (zmq_msg_recv(&message, socket, 0) >= 0) {
            heard = now();
            char *text = sure(strndup(zmq_msg_data(&message), zmq_msg_size(&message)));
            int what = take_message(text, &seq);
            free(text);
            if (what) {
                zmq_msg_close(&message);
                return what < 0;
            }
        }
        zmq_msg_close(&message);
    }
    return ended;
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: %s ENDPOINT [REQUIREMENT]\n", argv[0]);
        return 2;
    }
    signal(SIGINT, end);
    signal(SIGTERM, end);
    void *context = sure(zmq_ctx_new());
    int done = 0, status = 0;
    while (!done && !status) {
        void *socket = sure(zmq_socket(context, ZMQ_DEALER));
        zmq_setsockopt(socket, ZMQ_LINGER, &(int){0}, sizeof(int));
        if (zmq_connect(socket, argv[1]) != 0) {
            fprintf(stderr, "follow: %s: %s\n", argv[1], zmq_strerror(errno));
            status = 1;
        } else if ((done = follow(socket, argc > 2 ? argv[2] : "")) == 0) {
            puts("lost"); /* and again, on a new connection */
        }
        zmq_close(socket);
    }
    forget(NULL);
    forget_pools();
    free(draws);
    free(pools);
    zmq_ctx_destroy(context);
    return ended ? 0 : 1;
}
