# The scheduler extender. Needs nothing of its host: an API server and a port above 1024.
# Built by `cargo xtask images`; the static binary is all that the build gets, so BASE may be empty.
ARG BASE=scratch
FROM ${BASE}
COPY neuron-extender /neuron-extender
USER 65532:65532
ENTRYPOINT ["/neuron-extender"]
