#!/bin/sh
# An agent in POSIX shell: printf, mv, cat. Nothing of Honeybadger's is used.
# usage: agent.sh <box> <count>     <box> is <home>/data/ipc/<group>/<sender>
box=$1 count=$2
mkdir -p "$box/tmp" "$box/requests" "$box/replies"
i=0
while [ "$i" -lt "$count" ]; do
  i=$((i + 1))
  id=$(printf 'shell-%04d' "$i")
  printf '{"v": 1, "id": "%s", "type": "update_memory", "payload": {"content": "Shell note %s", "section": "Shell"}}' \
    "$id" "$i" > "$box/tmp/$id"
  mv "$box/tmp/$id" "$box/requests/$id.json"
  # wait for the reply as long as it takes: the host may be down for a moment
  until [ -f "$box/replies/$id.json" ]; do sleep 0.01; done
  reply=$(cat "$box/replies/$id.json")
  case $reply in
    *'"ok":true'*) rm -f "$box/replies/$id.json" ;;
    *) printf '%s\n' "$reply" >&2; exit 1 ;;
  esac
done
printf 'shell agent: %s notes acknowledged\n' "$count"
