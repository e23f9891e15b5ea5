# Fake hardware. Needs root with CAP_MKNOD, to make device nodes in the host's /var/lib/fake-neuron.
# Built by `cargo xtask images`; it gets nothing but the static binary, so BASE may be empty.
ARG BASE=scratch
FROM ${BASE}
COPY fake-neuron /fake-neuron
USER 0:0
ENTRYPOINT ["/fake-neuron"]
