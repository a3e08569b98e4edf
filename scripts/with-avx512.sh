#!/usr/bin/env bash
# Runs a program on an emulated processor with AVX-512: Bochs boots Debian's kernel with the program and its
# libraries alone.
#   scripts/with-avx512.sh PROGRAM [ARGUMENT]...
# About 100 times slower than the machine itself. Bochs 2.7 rounds halfway cases of subnormal float16 numbers wrongly,
# with every instruction set; everything else is as on hardware.
set -euo pipefail
(($# > 0)) || { echo "usage: scripts/with-avx512.sh PROGRAM [ARGUMENT]..." >&2; exit 2; }
program=$(readlink -f "$1")
cache=$(readlink -f "$(dirname "$0")/..")/build/avx512
mkdir -p "$cache"
work=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null; rm -rf "$work"' EXIT

find_kernel() { find "$cache" -name 'vmlinuz-*' | head -n 1; }
if [[ -z $(find_kernel) ]]; then
  package=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ {print $2; exit}')
  (cd "$cache" && apt-get -qq -o APT::Sandbox::User=root download "$package" && dpkg-deb -x "$package"_*.deb . && rm "$package"_*.deb)
fi

# The kernel unpacks this as its root folder, and runs /init, whose output is shown.
root=$work/root
mkdir -p "$root"/{bin,dev,proc,sys,tmp} "$work/disc"
cp /bin/busybox "$root/bin"
cp "$program" "$root/bin/program"
ldd "$program" | grep -o '/[^ ]*' | xargs -I '{}' cp -L --parents '{}' "$root"
cat > "$root/init" <<INIT
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev && mount -t proc proc /proc && mount -t sysfs sys /sys
exec > /dev/ttyS0 2>&1
export LD_BIND_NOW=1 # to bind later the loader would use xsavec, with wrong sizes
cd /tmp && grep -q avx512f /proc/cpuinfo && /bin/program$(printf ' %q' "${@:2}")
echo "exit status \$?"
sleep 3 # until it is written
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio --quiet -o -H newc) > "$work/disc/root.cpio"
cp "$(find_kernel)" "$work/disc/vmlinuz"
cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 "$work/disc"
# Bochs reports wrong sizes for xsavec, because of which the kernel would disable AVX-512.
cat > "$work/disc/isolinux.cfg" <<'BOOT'
DEFAULT linux
LABEL linux
KERNEL vmlinuz
APPEND initrd=root.cpio console=ttyS0 quiet loglevel=0 mitigations=off tsc=unstable noapic clearcpuid=xsavec,xsaves
BOOT
xorriso -as mkisofs -quiet -o "$work/disc.iso" -b isolinux.bin -c boot.cat -no-emul-boot \
  -boot-load-size 4 -boot-info-table "$work/disc" 2> /dev/null

cat > "$work/bochsrc" <<PC
display_library: term
megs: 2048
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/vgabios/vgabios.bin
cpu: model=corei7_skylake_x, ips=100000000
ata0-master: type=cdrom, path=$work/disc.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$work/serial.txt
log: /dev/null
panic: action=fatal
PC
echo c > "$work/start" # Debian's Bochs waits in its debugger
touch "$work/serial.txt"
tail -f "$work/serial.txt" &
# Bochs draws its screen, so it needs a terminal. Its output is discarded.
TERM=xterm python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' bochs -q -f "$work/bochsrc" -rc "$work/start" \
  > /dev/null < /dev/null || true
sleep 1
status=$(sed -n 's/^exit status \([0-9]*\).*/\1/p' "$work/serial.txt")
exit "${status:-1}"
