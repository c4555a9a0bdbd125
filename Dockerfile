# The image of `berth scheduler` and every other berth command. Nothing is compiled here: all
# dependencies have wheels, so the second stage needs neither a compiler nor pip.

FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/berth \
 && /opt/berth/bin/pip install --no-cache-dir --disable-pip-version-check . \
 && /opt/berth/bin/pip uninstall --yes --quiet pip \
 && python -m compileall -q /opt/berth

FROM python:3.12-slim
COPY --from=build /opt/berth /opt/berth
# Logs appear at once; the root file system is read-only; one thread for NumPy is enough.
ENV PATH=/opt/berth/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    OPENBLAS_NUM_THREADS=1
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["berth"]
CMD ["scheduler"]
