# What scenarios run as a user's container.
# Built by `cargo xtask images`; the static binary is all that the build gets, so BASE may be empty.
ARG BASE=scratch
FROM ${BASE}
COPY neuron-workload /neuron-workload
USER 65532:65532
ENTRYPOINT ["/neuron-workload"]
