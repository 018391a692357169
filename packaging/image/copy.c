/*
 * The image's program: copies /divvy to the directory that its argument names.
 *
 * The image holds Divvy's files and no C library, so this is linked statically. Each file gets its name when it is whole:
 * a library that programs have mapped is never written into. Links stay links. Ends with 1 and says why, where it cannot.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void fail(const char *what, const char *path)
{
	fprintf(stderr, "copy: %s %s: %s\n", path, what, strerror(errno));
	exit(1);
}

static void join(char *out, const char *folder, const char *name, const char *ending)
{
	if (snprintf(out, PATH_MAX, "%s/%s%s", folder, name, ending) >= PATH_MAX) {
		errno = ENAMETOOLONG;
		fail("cannot be named", name);
	}
}

static void copy_file(const char *from, const char *new, mode_t mode)
{
	static char buffer[1 << 16];
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int out = open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ssize_t got, put, part;

	if (in < 0)
		fail("cannot be read", from);
	if (out < 0)
		fail("cannot be made", new);
	while ((got = read(in, buffer, sizeof buffer)) > 0)
		for (put = 0; put < got; put += part)
			if ((part = write(out, buffer + put, got - put)) < 0)
				fail("cannot be written", new);
	if (got < 0)
		fail("cannot be read", from);
	if (fchmod(out, mode & 0777) || fsync(out) || close(out))
		fail("cannot be written", new);
	close(in);
}

static void copy_link(const char *from, const char *new)
{
	char target[PATH_MAX];
	ssize_t length = readlink(from, target, sizeof target - 1);

	if (length < 0)
		fail("cannot be read", from);
	target[length] = 0;
	if (symlink(target, new))
		fail("cannot be made", new);
}

/* Links come last: what they lead to is there by then. */
static void copy_folder(const char *from, const char *to, int links)
{
	DIR *folder = opendir(from);
	struct dirent *entry;

	if (!folder)
		fail("cannot be read", from);
	if (mkdir(to, 0755) && errno != EEXIST)
		fail("cannot be made", to);
	while ((errno = 0, entry = readdir(folder))) {
		char source[PATH_MAX], target[PATH_MAX], new[PATH_MAX];
		struct stat status;

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		join(source, from, entry->d_name, "");
		join(target, to, entry->d_name, "");
		join(new, to, entry->d_name, ".new");
		if (lstat(source, &status))
			fail("cannot be read", source);
		if (S_ISDIR(status.st_mode)) {
			copy_folder(source, target, links);
			continue;
		}
		if (S_ISLNK(status.st_mode) != links)
			continue;
		if (unlink(new) && errno != ENOENT)
			fail("cannot be removed", new);
		if (links)
			copy_link(source, new);
		else
			copy_file(source, new, status.st_mode);
		if (rename(new, target))
			fail("cannot be made", target);
	}
	if (errno)
		fail("cannot be read", from);
	closedir(folder);
}

int main(int argc, char **argv)
{
	if (argc != 2 || argv[1][0] != '/') {
		fprintf(stderr, "copy: name one absolute directory, such as /target, to copy /divvy to\n");
		return 2;
	}
	copy_folder("/divvy", argv[1], 0);
	copy_folder("/divvy", argv[1], 1);
	printf("copy: /divvy is in %s; its library is %s/lib/libdivvy.so\n", argv[1], argv[1]);
	return 0;
}
