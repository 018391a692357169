/* link: */
/* A program that finds the driver by name, and says which of two blocks it is given: "small 0 large 2" where 1 GiB is above
 * its limit. Includes nothing that a replaced function could contradict. usage: begin */
extern void *dlopen(const char *, int);
extern void *dlsym(void *, const char *);
extern void *malloc(unsigned long);
extern void free(void *);
extern int dprintf(int, const char *, ...);

typedef int (*init_fn)(unsigned);
typedef int (*create_fn)(void **, unsigned, int);
typedef int (*allocate_fn)(unsigned long long *, unsigned long);

int main(void)
{
	void *driver = dlopen("libcuda.so.1", 2), *context;
	init_fn init = driver ? (init_fn)dlsym(driver, "cuInit") : 0;
	create_fn create = driver ? (create_fn)dlsym(driver, "cuCtxCreate_v2") : 0;
	allocate_fn allocate = driver ? (allocate_fn)dlsym(driver, "cuMemAlloc_v2") : 0;
	unsigned long long block;
	char *own = malloc(100);
	int small, large;

	own[0] = 1;
	free(own);
	if (!init || !create || !allocate)
		return 3;
	if (init(0) || create(&context, 0, 0))
		return 4;
	small = allocate(&block, 1UL << 20);
	large = allocate(&block, 1UL << 30);
	dprintf(1, "small %d large %d\n", small, large);
	return 0;
}
