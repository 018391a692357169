/* One function of the C library's or of the dynamic linker's, replaced as programs replace them: each call looks the next one
 * up by dlsym and goes on to it. A lookup that comes here again, and a call by the library under test, end the process.
 * -DNAME="memcpy" names it; -DDATA makes a variable of it, all zero. */
#ifdef DATA
char replaced[512] __asm__(NAME) __attribute__((aligned(16)));
#else
struct map {
	unsigned long base;
	const char *path;
	void *dynamic;
	struct map *next;
};
extern struct {
	int version;
	struct map *first;
} _r_debug;
extern void *dlsym(void *, const char *);
extern void *dlvsym(void *, const char *, const char *);

typedef long (*any_fn)(long, long, long, long, long, long);

static int is_ours(unsigned long caller)
{
	const struct map *nearest = 0;
	for (const struct map *map = _r_debug.first; map; map = map->next)
		if (map->base <= caller && (!nearest || map->base > nearest->base))
			nearest = map;
	const char *name = nearest ? nearest->path : "", *part = name;
	for (; *name; name++)
		if (*name == '/')
			part = name + 1;
	const char *wanted = "libdivvy";
	for (; *wanted; wanted++, part++)
		if (*wanted != *part)
			return 0;
	return 1;
}

static int same(const char *one, const char *other)
{
	for (; *one && *one == *other; one++, other++)
		;
	return *one == *other;
}

long replaced(long, long, long, long, long, long) __asm__(NAME);
long replaced(long a, long b, long c, long d, long e, long f)
{
	static __thread int depth;
	static any_fn next;
	if (is_ours((unsigned long)__builtin_return_address(0)) || depth > 0)
		__builtin_trap();
	if (!next) {
		depth++;
		if (same(NAME, "dlsym"))
			next = (any_fn)dlvsym((void *)-1L, NAME,
#ifdef __x86_64__
					      "GLIBC_2.2.5");
#else
					      "GLIBC_2.17");
#endif
		else
			next = (any_fn)dlsym((void *)-1L, NAME);
		depth--;
	}
	if (!next)
		__builtin_trap();
	return next(a, b, c, d, e, f);
}
#endif
