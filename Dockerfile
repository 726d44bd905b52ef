# docker build -t longformer .
# docker run -p 127.0.0.1:8080:8080 -v FOLDER:/model:ro -e LONGFORMER_API_KEY=secret longformer
# docs/packages.md
FROM debian:12-slim AS build
WORKDIR /src
COPY tools/packages.sh tools/packages.sh
RUN apt-get update && apt-get install -y --no-install-recommends make && tools/packages.sh build deb
COPY . .
RUN --mount=type=cache,target=/root/.cache/ccache make deb

FROM debian:12-slim
COPY --from=build /src/build-deb/packages/longformer_*.deb /tmp/
RUN apt-get update && \
    apt-get install -y --no-install-recommends /tmp/longformer_*.deb libcurl4 ca-certificates && \
    rm -rf /var/lib/apt/lists/* /tmp/longformer_*.deb && \
    install -d -o 65532 -g 65532 /data
# Models that are named org/name are fetched here; the volume keeps them.
ENV HF_HOME=/data/huggingface LONGFORMER_HOSTNAME=0.0.0.0
VOLUME /data
WORKDIR /data
USER 65532:65532
EXPOSE 8080
HEALTHCHECK --interval=15s --timeout=8s --start-period=15m CMD ["longformer", "serve", "--check"]
ENTRYPOINT ["longformer"]
CMD ["serve", "/model"]
