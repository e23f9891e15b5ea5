# Fake hardware. Root with CAP_MKNOD: it makes device nodes in its host's /var/lib/fake-neuron.
# Built by `cargo xtask images`; the static binary is all that the build gets, so BASE may be empty.
ARG BASE=scratch
FROM ${BASE}
COPY fake-neuron /fake-neuron
USER 0:0
ENTRYPOINT ["/fake-neuron"]
