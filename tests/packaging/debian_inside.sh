#!/usr/bin/env bash
# The part of debian.sh that runs in the fresh root, as root: our files are absent before, everything
# works, and nothing is left behind.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive OMP_NUM_THREADS=1
cd /packages
files() { find / -xdev -path /proc -prune -o -path /packages -prune -o -name '*addnorm*' -print; }
[[ -z $(files) ]] || { echo "debian: there already: $(files)" >&2; exit 1; }

mapfile -t names < <(for package in *.deb; do dpkg-deb --field "$package" Package; done)
apt-get install -qq -y --no-install-recommends ./*.deb >/dev/null
dpkg --list "${names[@]}" | tail -n "${#names[@]}"
dpkg --verify "${names[@]}"
mapfile -t owned < <(dpkg --listfiles "${names[@]}" | grep '^/' | sort -u)

mkdir work && cd work
addnorm --version
addnorm trace 1 2 3 4 | tail -n 1
addnorm study --steps 2 --layers 2 --width 16 --heads 2 --context 16 --seeds 1 --placement post,pre | sed -n 1,4p
zcat /usr/share/man/man1/addnorm.1.gz | grep "^\.SH SYNOPSIS" >/dev/null

addnorm serve --port 0 >address &
until grep -q http address 2>/dev/null; do sleep 0.1; kill -0 $!; done
exec 3<>"/dev/tcp/127.0.0.1/$(grep -o '[0-9]* until' address | cut -d' ' -f1)"
printf 'GET / HTTP/1.0\r\n\r\n' >&3
grep -q '<title>' <&3 && echo "serve: shows the tutorial"
kill $!

read -ra flags <<<"$(pkg-config --cflags --libs addnorm)"
c++ -std=c++20 ../inference.cc "${flags[@]}" -o inference
c++ -std=c++20 ../probe.cc "${flags[@]}" -o probe
cc -std=c99 ../add_norm.c "${flags[@]}" -o add_norm
ldd add_norm | grep -o 'libaddnorm.*addnorm[^ ]*'
./inference | tail -n 1 | grep 'features 1\.000'
./probe | tail -n 1 | grep '1\.87'
./add_norm | tail -n 1
read -ra flags <<<"$(pkg-config --static --libs addnorm | sed 's/-laddnorm/-l:libaddnorm.a/')"
c++ -std=c++20 ../inference.cc "${flags[@]}" -fopenmp -o inference && ./inference >/dev/null
for shared in ON OFF; do
  cmake -S ../snippets -B "yours-$shared" -DBUILD_SHARED_LIBS=$shared >/dev/null
  cmake --build "yours-$shared" >/dev/null
  "./yours-$shared/yours" | diff ../snippets/first.cc.out -
done
if dpkg --status python3-addnorm >/dev/null 2>&1; then
  python3 -c 'import addnorm; print(addnorm.trace([1, 2, 3, 4])["variance"], "from Python")'
fi

cd / && rm -rf /packages/work
apt-get purge -qq -y "${names[@]}" >/dev/null
left=$(files)
for file in "${owned[@]}"; do
  [[ -d $file || ! -e $file ]] || left+=$'\n'$file
done
[[ -z $left ]] || { echo "debian: left behind: $left" >&2; exit 1; }
echo "debian: purged, and nothing is left"
