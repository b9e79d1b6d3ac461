#!/bin/bash
# Usage: debian.sh SOURCE ROOM [SUITE]: the first hour of a new user. As root, makes a bare Debian (bookworm) with git and make in the folder ROOM,
# and does there what the README says, as it is written: `make demo`, the C program and the lines below it; then builds and runs the
# installed examples. TEST=1 runs `make test`, too. Packages come from where this machine has its own. Needs debootstrap.
# Ends with 'N passed, N failed', and with 1 if anything failed; what it printed is in ROOM/tmp/*.log.
set -uo pipefail
source=$(cd "$1" && pwd)
room=$2
suite=${3:-bookworm}
passed=0
failed=0

if [ "${ROOM_IS_OURS:-}" != 1 ]; then # mounts of our own, which end with us
    mkdir -p "$room"
    ROOM_IS_OURS=1 exec unshare --mount "$0" "$source" "$(cd "$room" && pwd)" "$suite"
fi

say() { echo "== $*"; }
inside() { chroot "$room" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -c "$1"; }
step() { # step NAME LINES: runs the lines in the clone
    local name=$1 begin=$SECONDS status=ok
    inside "cd /root/facula && $2" >"$room/tmp/$name.log" 2>&1 </dev/null || status=FAILED
    if [ $status = ok ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    printf '%-7s %s (%s s)\n' $status "$name" $((SECONDS - begin))
    [ $status = ok ] || tail -n 15 "$room/tmp/$name.log"
}

make_room() {
    local mirror
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $suite" 'Component: main' | head -n 1)
    [ ! -e "$room/usr" ] || { say "$room is not empty" && return 1; }
    debootstrap --variant=minbase --include=git,make "$suite" "$room" "$mirror" >"$room.log" || {
        tail -n 20 "$room.log"
        return 1
    }
    apt-config dump | grep '^Acquire::' >"$room/etc/apt/apt.conf.d/00as-outside"
    cp /etc/resolv.conf /etc/hosts "$room/etc/"
    mount -t proc proc "$room/proc" && mount --rbind /dev "$room/dev" || return 1
    git clone -q "$source" "$room/root/facula"
}

# The README's first C program, and the shell's lines after it.
readme_program() { awk '/^```c$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$source/README.md"; }
readme_lines() { awk '/^```c$/ { seen = 1 } /^```$/ { done = seen } done && /^    / { print substr($0, 5); any = 1 } any && !/^    / { exit }' "$source/README.md"; }

examples() {
    inside 'rm -rf /root/examples; cp -r /usr/local/share/facula/examples /root/examples'
    step examples-build 'make -C /root/examples'
    for file in "$room"/root/examples/*.c; do
        name=$(basename "$file" .c)
        step "example-$name" "cd /root/examples && timeout 300 ./$name"
    done
}

make_room || exit 1
say "a Debian of $(inside 'dpkg -l | grep -c ^ii') packages"
step make-demo 'make demo'
[ "${TEST:-}" != 1 ] || step make-test 'make test'
readme_program >"$room/root/facula/ten_lines.c"
say "the README's lines:"
readme_lines | tee "$room/root/lines.sh"
step readme-lines 'sudo() { "$@"; }; set -e; . /root/lines.sh' # who is root needs no sudo
step readme-program './a.out | tee /dev/stderr | grep -q "tensor(\[ *1"'
examples
tail -n 5 "$room/tmp/make-demo.log"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
