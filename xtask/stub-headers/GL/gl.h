/* The few names cudaGL.h needs, so that its prototypes can be read without OpenGL installed. */
#pragma once
typedef unsigned int GLenum;
typedef unsigned int GLuint;
