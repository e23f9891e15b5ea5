# The device plugin. Needs root, without any capability, for kubelet's sockets (folder mode 0750, sockets 0755).
# Built by `cargo xtask images`; it gets nothing but the static binary, so BASE may be empty.
ARG BASE=scratch
FROM ${BASE}
COPY neuron-device-plugin /neuron-device-plugin
USER 0:0
ENTRYPOINT ["/neuron-device-plugin"]
