#!/bin/sh
# certs.sh FOLDER - throw-away certificates for tests: two authorities (ca, other), server
# certificates of each for localhost, clients of each by name.
set -eu
cd "$1"
umask 077
curve="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
# shellcheck disable=SC2086  # flags are words
for ca in ca other; do
    openssl req -x509 $curve -keyout $ca.key -out $ca.pem -subj "/CN=$ca" 2> /dev/null
done
# make NAME AUTHORITY COMMON-NAME ALTERNATIVE-NAMES USE
make() {
    # shellcheck disable=SC2086
    openssl req $curve -keyout "$1.key" -out "$1.csr" -subj "/CN=$3" 2> /dev/null
    printf 'subjectAltName=%s\nextendedKeyUsage=%s\n' "$4" "$5" > "$1.ext"
    openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -CAcreateserial -days 2 \
        -extfile "$1.ext" -out "$1.pem" 2> /dev/null
}
make server ca localhost "DNS:localhost,IP:127.0.0.1" serverAuth
make server2 other localhost "DNS:localhost,IP:127.0.0.1" serverAuth
make trainer ca trainer-7 "DNS:trainer-7" clientAuth
make worker ca worker-3 "DNS:worker-3,URI:spiffe://hydra/worker/3" clientAuth
make stranger ca stranger "DNS:stranger" clientAuth
make rogue other trainer-7 "DNS:trainer-7" clientAuth
