# Pitot in a container: `docker build -t pitot . && docker run -it pitot` (or podman) is `make demo` of the README, without a GPU.
FROM debian:12

WORKDIR /pitot
# Its own layer: the packages change more seldom than the sources.
COPY tools/install-deps tools/
RUN tools/install-deps
COPY . .
RUN make
CMD ["make", "demo"]
