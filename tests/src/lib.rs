//! Nothing of its own: the package is its one end-to-end test binary, `e2e/`, with the C clients
//! it starts (`clients/`) and the transcripts it compares with (`conformance/`, `startup/`).
