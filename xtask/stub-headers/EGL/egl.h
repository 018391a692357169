/* The few names cudaEGL.h needs, so that its prototypes can be read without EGL installed. */
#pragma once
typedef int EGLint;
