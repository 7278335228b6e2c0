/* The floor of reading a persistent probe: its lines into a table of name and value.
   usage: floor_stream PROBE N */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern char **environ;

int main(int count, char **words) {
    if (count != 3) return 2;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) return 1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    char *argv[] = {words[1], words[2], 0};
    pid_t pid;
    if (posix_spawn(&pid, words[1], &actions, 0, argv, environ)) return 1;
    close(ends[1]);
    static double table[65536];
    static char text[65537];
    int have = 0, got;
    while ((got = read(ends[0], text + have, 65536 - have)) > 0) {
        have += got;
        text[have] = 0;
        char *line = text, *end;
        while ((end = memchr(line, '\n', text + have - line))) {
            unsigned hash = 5381;
            char *at = line;
            while (*at != ' ') hash = hash * 33 + *at++;
            table[hash & 65535] = strtod(at + 1, 0);
            line = end + 1;
        }
        have = text + have - line;
        memmove(text, line, have);
    }
    return 0;
}
