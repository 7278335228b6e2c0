/* A persistent probe: N values a second, in one burst, one line each.
   usage: stream_probe N [equals] -- `name value`, or with `equals` `name=value` */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int count, char **words) {
    int values = atoi(words[1]);
    char between = count > 2 ? '=' : ' ';
    static char room[1 << 20];
    setvbuf(stdout, room, _IOFBF, sizeof room);
    struct timespec due;
    clock_gettime(CLOCK_MONOTONIC, &due);
    for (long turn = 0;; turn++) {
        for (int i = 0; i < values; i++) printf("probe_v%d%c%ld\n", i, between, turn + i);
        if (fflush(stdout)) return 0;
        due.tv_sec++;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, 0);
    }
}
