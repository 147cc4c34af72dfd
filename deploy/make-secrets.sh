#!/bin/sh
# Makes the passwords that compose.yaml asks for, in deploy/secrets. What is there already stays.
#
# The folder is closed to everybody else on this machine; the files in it are readable, because each container reads
# its own as a user of its own, and compose cannot change the owner of a secret that is a file.
set -eu
folder="${1:-$(dirname "$0")/secrets}"
umask 077
mkdir -p "$folder"
chmod 700 "$folder"

random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }

for name in database_password grafana_password mqtt_live_password; do
    if [ ! -s "$folder/$name" ]; then
        random > "$folder/$name"
    fi
done
if [ ! -s "$folder/database_url" ]; then
    printf 'postgresql://indubio:%s@database/indubio\n' "$(cat "$folder/database_password")" > "$folder/database_url"
fi
touch "$folder/mqtt_machines"  # one line for each machine: ./add-machine.sh NAME
chmod 444 "$folder"/*
