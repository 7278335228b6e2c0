/* The floor of running probes: N of them, each once a second, spread over the second; posix_spawn,
   read to the end, waitpid, one at a time. usage: floor_spawn N PROBE LOG */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
extern char **environ;

int main(int count, char **words) {
    if (count != 4) return 2;
    long probes = atol(words[1]);
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (long turn = 0;; turn++) {
        long long ns = (turn / probes) * 1000000000LL + (turn % probes) * (1000000000LL / probes) + start.tv_nsec;
        struct timespec due = {start.tv_sec + ns / 1000000000LL, ns % 1000000000LL};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, 0);
        int ends[2];
        if (pipe2(ends, O_CLOEXEC)) return 1;
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
        char id[24];
        snprintf(id, sizeof id, "%ld", turn % probes);
        char *argv[] = {words[2], id, words[3], 0};
        pid_t pid;
        if (posix_spawn(&pid, words[2], &actions, 0, argv, environ)) return 1;
        close(ends[1]);
        posix_spawn_file_actions_destroy(&actions);
        char text[4096];
        while (read(ends[0], text, sizeof text) > 0) {}
        close(ends[0]);
        int status;
        waitpid(pid, &status, 0);
    }
}
