# The container that scenarios run in place of a user's.
# Built by `cargo xtask images`; it gets nothing but the static binary, so BASE may be empty.
ARG BASE=scratch
FROM ${BASE}
COPY neuron-workload /neuron-workload
USER 65532:65532
ENTRYPOINT ["/neuron-workload"]
