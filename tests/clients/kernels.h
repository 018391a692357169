/* Kernels as PTX text, old enough for every driver the project speaks of.
 *
 * Each is a macro, so that a client embeds only what it launches. Names and parameters are a
 * contract with the simulated driver, which runs them by name. */
#ifndef DIVVY_KERNELS_H
#define DIVVY_KERNELS_H

#define PTX_HEAD ".version 7.8\n.target sm_75\n.address_size 64\n"

#define PTX_EMPTY ".visible .entry empty()\n{\n ret;\n}\n"

#define PTX_TRAP ".visible .entry trap_now()\n{\n trap;\n ret;\n}\n"

/* fill32(u64 p, u32 value, u32 n) */
#define PTX_FILL32                                                                                 \
    ".visible .entry fill32(.param .u64 p, .param .u32 v, .param .u32 n)\n{\n"                     \
    " .reg .pred %p1;\n .reg .b32 %r<7>;\n .reg .b64 %rd<4>;\n"                                    \
    " ld.param.u64 %rd1, [p];\n ld.param.u32 %r1, [v];\n ld.param.u32 %r2, [n];\n"                 \
    " mov.u32 %r3, %ctaid.x;\n mov.u32 %r4, %ntid.x;\n mov.u32 %r5, %tid.x;\n"                     \
    " mad.lo.s32 %r6, %r3, %r4, %r5;\n setp.ge.u32 %p1, %r6, %r2;\n @%p1 bra DONE;\n"              \
    " cvta.to.global.u64 %rd2, %rd1;\n mul.wide.u32 %rd3, %r6, 4;\n add.s64 %rd3, %rd2, %rd3;\n"   \
    " st.global.u32 [%rd3], %r1;\nDONE:\n ret;\n}\n"

/* add32(u64 c, u64 a, u64 b, u32 n) */
#define PTX_ADD32                                                                                  \
    ".visible .entry add32(.param .u64 c, .param .u64 a, .param .u64 b, .param .u32 n)\n{\n"       \
    " .reg .pred %p1;\n .reg .b32 %r<9>;\n .reg .b64 %rd<8>;\n"                                    \
    " ld.param.u64 %rd1, [c];\n ld.param.u64 %rd2, [a];\n ld.param.u64 %rd3, [b];\n"               \
    " ld.param.u32 %r2, [n];\n mov.u32 %r3, %ctaid.x;\n mov.u32 %r4, %ntid.x;\n"                   \
    " mov.u32 %r5, %tid.x;\n mad.lo.s32 %r6, %r3, %r4, %r5;\n setp.ge.u32 %p1, %r6, %r2;\n"        \
    " @%p1 bra DONE;\n mul.wide.u32 %rd4, %r6, 4;\n add.s64 %rd5, %rd1, %rd4;\n"                   \
    " add.s64 %rd6, %rd2, %rd4;\n add.s64 %rd7, %rd3, %rd4;\n ld.global.u32 %r7, [%rd6];\n"        \
    " ld.global.u32 %r8, [%rd7];\n add.u32 %r7, %r7, %r8;\n st.global.u32 [%rd5], %r7;\n"          \
    "DONE:\n ret;\n}\n"

/* spin_ns(u64 ns): runs until the global timer has moved by that much. */
#define PTX_SPIN                                                                                   \
    ".visible .entry spin_ns(.param .u64 ns)\n{\n .reg .pred %p1;\n .reg .b64 %rd<5>;\n"           \
    " ld.param.u64 %rd1, [ns];\n mov.u64 %rd2, %globaltimer;\nLOOP:\n"                             \
    " mov.u64 %rd3, %globaltimer;\n sub.u64 %rd4, %rd3, %rd2;\n setp.lt.u64 %p1, %rd4, %rd1;\n"    \
    " @%p1 bra LOOP;\n ret;\n}\n"

/* share_work(u64 counter, u64 iterations): works for so many turns of a loop, about a nanosecond each,
 * then its first thread counts itself where there is a counter. */
#define PTX_WORK                                                                                   \
    ".visible .entry share_work(.param .u64 counter, .param .u64 iterations)\n{\n"                 \
    " .reg .pred %p<3>;\n .reg .b32 %r<3>;\n .reg .b64 %rd<4>;\n"                                  \
    " ld.param.u64 %rd1, [counter];\n ld.param.u64 %rd2, [iterations];\n mov.u64 %rd3, 0;\n"      \
    "LOOP:\n add.u64 %rd3, %rd3, 1;\n setp.lt.u64 %p1, %rd3, %rd2;\n @%p1 bra LOOP;\n"            \
    " mov.u32 %r1, %tid.x;\n mov.u32 %r2, %ctaid.x;\n or.b32 %r1, %r1, %r2;\n"                    \
    " setp.ne.u32 %p2, %r1, 0;\n @%p2 bra DONE;\n setp.eq.u64 %p2, %rd1, 0;\n @%p2 bra DONE;\n"   \
    " cvta.to.global.u64 %rd1, %rd1;\n red.global.add.u64 [%rd1], 1;\nDONE:\n ret;\n}\n"

/* deep(u64 p): needs `bytes` (a literal) of local memory per thread. The address is data
 * dependent, so that no assembler can take the array away. */
#define PTX_DEEP(bytes)                                                                            \
    ".visible .entry deep(.param .u64 p)\n{\n .local .align 8 .b8 depot[" bytes "];\n"             \
    " .reg .b32 %r<4>;\n .reg .b64 %rd<8>;\n ld.param.u64 %rd1, [p];\n"                            \
    " cvta.to.global.u64 %rd1, %rd1;\n ld.global.u32 %r1, [%rd1];\n and.b32 %r1, %r1, 4095;\n"     \
    " cvt.u64.u32 %rd2, %r1;\n mov.u64 %rd3, depot;\n add.s64 %rd4, %rd3, %rd2;\n"                 \
    " mov.u32 %r2, %tid.x;\n st.local.u8 [%rd4], %r2;\n st.local.u8 [%rd3], %r1;\n"                \
    " ld.local.u8 %r3, [%rd4];\n st.global.u32 [%rd1], %r3;\n ret;\n}\n"

#define PTX_ANSWER ".visible .global .align 4 .u32 answer = 42;\n"

/* A global array of `bytes` (a literal). */
#define PTX_BIG(bytes) ".visible .global .align 16 .b8 big[" bytes "];\n"

#endif
