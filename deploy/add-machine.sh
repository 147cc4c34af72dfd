#!/bin/sh
# Gives a machine a user at the broker, named as the machine, and prints its password: ./add-machine.sh NAME
#
# The broker knows it after: docker compose up --detach --force-recreate broker-passwords && docker compose kill --signal HUP broker
set -eu
name="${1:?usage: ./add-machine.sh NAME}"
folder="${2:-$(dirname "$0")/secrets}"
case "$name" in
    live | *[!A-Za-z0-9_.-]*) echo "$name: a machine is named by letters, digits, _ . and -, and is not called live" >&2; exit 2 ;;
esac
if grep -q "^$name:" "$folder/mqtt_machines"; then
    echo "$name: is there already; to give it another password take its line out of $folder/mqtt_machines" >&2
    exit 1
fi
password="$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')"
chmod 644 "$folder/mqtt_machines"
printf '%s:%s\n' "$name" "$password" >> "$folder/mqtt_machines"
chmod 444 "$folder/mqtt_machines"
printf '%s\n' "$password"
