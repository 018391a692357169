// A function without a body, which plugin_test.go has, needs a file of assembly in its package.
