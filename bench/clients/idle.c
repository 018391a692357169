/* A program that never uses the GPU: what it costs is what preloading costs. */
int main(void)
{
    return 0;
}
