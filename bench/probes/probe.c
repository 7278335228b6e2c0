/* A trivial probe: notes when it started (CLOCK_REALTIME) and prints one value.
   usage: probe ID log:FILE [collectd] -- `log:-`: note nothing */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **words) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    char text[160];
    int length;
    if (count > 2 && strcmp(words[2], "log:-")) {
        int fd = open(words[2] + 4, O_WRONLY | O_APPEND);
        length = snprintf(text, sizeof text, "%s %ld.%09ld\n", words[1], (long)now.tv_sec, now.tv_nsec);
        if (fd < 0 || write(fd, text, length) < 0) return 2;
        close(fd);
    }
    if (count > 3)
        length = snprintf(text, sizeof text, "PUTVAL h/exec-p%s/gauge-v interval=1 N:1\n", words[1]);
    else
        length = snprintf(text, sizeof text, "1\n");
    return write(1, text, length) == length ? 0 : 1;
}
