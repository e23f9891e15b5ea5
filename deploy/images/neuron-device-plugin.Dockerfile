# The device plugin. Root, without any capability: kubelet's sockets are root's (mode 0750 folder, 0755 sockets).
# Built by `cargo xtask images`; the static binary is all that the build gets, so BASE may be empty.
ARG BASE=scratch
FROM ${BASE}
COPY neuron-device-plugin /neuron-device-plugin
USER 0:0
ENTRYPOINT ["/neuron-device-plugin"]
