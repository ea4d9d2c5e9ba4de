#!/bin/sh
# integ_kubernetes.sh - the manifests are valid for a current Kubernetes, and the flags that
# they pass exist.
set -eu
# The daemon takes the command as it stands, but for the folders.
command -v openssl > /dev/null && {
    tmp=$(mktemp -d)
    trap 'rm -rf "$tmp"' EXIT
    sh tests/lib/certs.sh "$tmp"
    # shellcheck disable=SC2046  # one word a flag
    "${HYDRA_BIN_DIR:?}/hydra-schedd" --check-config $(
        sed -n '/^            - hydra-schedd$/,/ports:/s/^            - \(--[^ ]*\|[^ ]*\).*/\1/p' \
            deploy/kubernetes/hydra.yaml | sed -e 1d -e "s|/etc/hydra/tls|$tmp|" \
            -e "s|/run/hydra|$tmp|" -e "s|/var/lib/hydra|$tmp|")
}
venv=${HYDRA_BUILD_DIR:?}/venv-kubernetes
if [ ! -x "$venv/bin/kubernetes-validate" ]; then
    python3 -m venv "$venv" > /dev/null 2>&1 || { echo "SKIPPED: no python3 venv"; exit 77; }
    "$venv/bin/pip" -q install --disable-pip-version-check --timeout 20 \
        'kubernetes-validate>=1.29' setuptools > "$venv/log" 2>&1 || {
        echo "SKIPPED: PyPI is out of reach"
        rm -rf "$venv"
        exit 77
    }
fi
"$venv/bin/kubernetes-validate" --strict deploy/kubernetes/*.yaml
for program in hydra-schedd hydra-worker; do
    "${HYDRA_BIN_DIR:?}/$program" --help > "$venv/help"
    awk -v p="- $program" '$0 ~ p"$" { on = 1 } on && /ports:|env:/ { on = 0 }
        on && /- --/ { print $2 }' deploy/kubernetes/hydra.yaml | sort -u |
        while read -r flag; do
            grep -q -- "$flag" "$venv/help" || { echo "$program has no $flag"; exit 1; }
        done
done
