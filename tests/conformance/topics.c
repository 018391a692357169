/* The list of topics, in the order of the transcript. */
#include "conform.h"

topic_fn starting, answers, plain_memory, freeing, pitch_and_managed, arrays, contexts, limits;
topic_fn virtual_memory, pools, capture, stream_order, events, graphs, modules, libraries, busy;
topic_fn sticky, forked, callbacks, nulls, addresses, sharing, copies, local_memory;
topic_fn holders, ended_elsewhere, beside_captures, managed_memory;

const struct topic TOPICS[] = {
    {"starting", starting, 3},
    {"answers", answers, 1},
    {"plain_memory", plain_memory, 2},
    {"freeing", freeing, 2},
    {"pitch_and_managed", pitch_and_managed, 1},
    {"arrays", arrays, 1},
    {"contexts", contexts, 4},
    {"limits", limits, 1},
    {"virtual_memory", virtual_memory, 4},
    {"pools", pools, 5},
    {"capture", capture, 6},
    {"stream_order", stream_order, 3},
    {"events", events, 1},
    {"graphs", graphs, 9},
    {"modules", modules, 2},
    {"libraries", libraries, 1},
    {"local_memory", local_memory, 1},
    {"busy", busy, 2},
    {"sticky", sticky, 3},
    {"forked", forked, 2},
    {"callbacks", callbacks, 2},
    {"copies", copies, 1},
    {"sharing", sharing, 2},
    {"addresses", addresses, 1},
    {"holders", holders, 3},
    {"ended_elsewhere", ended_elsewhere, 2},
    {"beside_captures", beside_captures, 3},
    {"managed_memory", managed_memory, 3},
    {"nulls", nulls, 24},
    {NULL, NULL, 0},
};
