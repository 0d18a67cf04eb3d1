/* racer WAY BOX TMP FOREIGN COUNT: what stands at BOX/x<n>.json changes all the time, until it is killed.

   WAY  link    a file of its own and a symbolic link to FOREIGN
        hard    a file of its own and a hard link to FOREIGN
        fifo    a file of its own and a FIFO
        unlink  a hard link to FOREIGN that is taken away again
   The first three are exchanged in one step (RENAME_EXCHANGE): there is no moment without a name. What somebody
   removed is made anew. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void die(const char *what) { perror(what); exit(1); }

static void make(const char *path, const char *way, const char *foreign) {
    int failed = !strcmp(way, "link")   ? symlink(foreign, path)
                 : !strcmp(way, "fifo") ? mkfifo(path, 0600)
                                        : link(foreign, path);
    if (failed && errno != EEXIST) die(way);
}

static void make_own(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0) die("open");
    if (write(fd, "[]", 2) != 2) die("write");
    close(fd);
}

int main(int count, char **argument) {
    if (count != 6) return 2;
    const char *way = argument[1], *foreign = argument[4];
    int names = atoi(argument[5]);
    char in_box[4096], aside[4096], fresh[4096];
    for (unsigned long round = 0;; round++) {
        int n = (int)(round % (unsigned long)names);
        snprintf(in_box, sizeof in_box, "%s/x%d.json", argument[2], n);
        snprintf(aside, sizeof aside, "%s/y%d", argument[3], n);
        snprintf(fresh, sizeof fresh, "%s/z%d", argument[3], n);
        if (!strcmp(way, "unlink")) {
            make(in_box, way, foreign);
            for (volatile int spin = 0; spin < (int)(round * 7919 % 4000); spin++) {}
            if (unlink(in_box) && errno != ENOENT) die("unlink");
            continue;
        }
        if (renameat2(AT_FDCWD, in_box, AT_FDCWD, aside, RENAME_EXCHANGE) == 0) continue;
        if (errno != ENOENT) die("exchange");
        if (unlink(aside) && errno != ENOENT) die("unlink");
        make(aside, way, foreign);
        make_own(fresh);
        if (rename(fresh, in_box)) die("rename");
    }
}
