# The scheduler extender. Needs an API server and a port above 1024, and nothing of its host.
# Built by `cargo xtask images`; it gets nothing but the static binary, so BASE may be empty.
ARG BASE=scratch
FROM ${BASE}
COPY neuron-extender /neuron-extender
USER 65532:65532
ENTRYPOINT ["/neuron-extender"]
