/*
 * Records what a program asks of the driver while it starts.
 *
 * Preloaded, it writes one line for each question to the file $DIVVY_RECORD names:
 *   dlsym NAME found|missing
 *   proc NAME VERSION FLAGS RESULT STATUS found|missing     (cuGetProcAddress[_v2])
 *   table GUID RESULT                                        (cuGetExportTable)
 * The answers are the driver's own; nothing is changed. Not part of Divvy: a tool for tests, glibc
 * 2.34 or newer.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void *(*dlsym_fn)(void *, const char *);
typedef int (*proc_v1_fn)(const char *, void **, int, uint64_t);
typedef int (*proc_v2_fn)(const char *, void **, int, uint64_t, int *);
typedef int (*table_fn)(const void **, const unsigned char *);

static proc_v1_fn real_proc_v1;
static proc_v2_fn real_proc_v2;
static table_fn real_table;

static void line(const char *format, ...)
{
	static int fd = -1;
	char text[512];
	va_list arguments;
	int length;

	if (fd < 0) {
		const char *path = getenv("DIVVY_RECORD");
		fd = open(path ? path : "/dev/null", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	}
	va_start(arguments, format);
	length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (length > 0 && write(fd, text, length < (int)sizeof(text) ? length : (int)sizeof(text) - 1) < 0)
		return;
}

static dlsym_fn real_dlsym(void)
{
	static dlsym_fn real;
	if (!real)
		real = (dlsym_fn)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
	if (!real)
		real = (dlsym_fn)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	return real;
}

static void *ours(const char *name, void *real);

static int proc_v1(const char *name, void **out, int version, uint64_t flags)
{
	int result = real_proc_v1(name, out, version, flags);
	line("proc %s %d %llu %d - %s\n", name, version, (unsigned long long)flags, result,
	     out && *out ? "found" : "missing");
	if (result == 0 && out && *out)
		*out = ours(name, *out);
	return result;
}

static int proc_v2(const char *name, void **out, int version, uint64_t flags, int *status)
{
	int mine = -1;
	int result = real_proc_v2(name, out, version, flags, status ? status : &mine);
	line("proc %s %d %llu %d %d %s\n", name, version, (unsigned long long)flags, result,
	     status ? *status : mine, out && *out ? "found" : "missing");
	if (result == 0 && out && *out) {
		/* The same name means the first or the second version, by the version asked for. */
		if (!strcmp(name, "cuGetProcAddress") && version >= 12000) {
			real_proc_v2 = (proc_v2_fn)*out;
			*out = (void *)proc_v2;
		} else {
			*out = ours(name, *out);
		}
	}
	return result;
}

static int table(const void **out, const unsigned char *guid)
{
	char text[33];
	int result = real_table(out, guid);
	for (int i = 0; i < 16; i++)
		sprintf(text + 2 * i, "%02x", guid[i]);
	line("table %s %d\n", text, result);
	return result;
}

static void *ours(const char *name, void *real)
{
	if (!real)
		return real;
	if (!strcmp(name, "cuGetProcAddress")) {
		real_proc_v1 = (proc_v1_fn)real;
		return (void *)proc_v1;
	}
	if (!strcmp(name, "cuGetProcAddress_v2")) {
		real_proc_v2 = (proc_v2_fn)real;
		return (void *)proc_v2;
	}
	if (!strcmp(name, "cuGetExportTable")) {
		real_table = (table_fn)real;
		return (void *)table;
	}
	return real;
}

void *dlsym(void *handle, const char *name)
{
	void *found = real_dlsym()(handle, name);
	if (!strncmp(name, "cu", 2) && name[2] >= 'A' && name[2] <= 'Z') {
		line("dlsym %s %s\n", name, found ? "found" : "missing");
		return ours(name, found);
	}
	if (!strncmp(name, "nvml", 4))
		line("dlsym %s %s\n", name, found ? "found" : "missing");
	return found;
}
