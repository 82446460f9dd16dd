#!/usr/bin/env python3
"""unpack_kernel.py VMLINUZ VMLINUX: writes the kernel that is packed in an x86 boot image. Where QEMU has it as it
is, it enters it directly (PVH), and no emulated processor unpacks it, which takes four seconds."""
import lzma
import struct
import sys

packed = open(sys.argv[1], "rb").read()
# The kernel's Documentation/arch/x86/boot.rst: setup_sects, payload_offset, payload_length.
start = (packed[0x1F1] + 1) * 512 + struct.unpack_from("<I", packed, 0x248)[0]
payload = packed[start : start + struct.unpack_from("<I", packed, 0x24C)[0]]
kernel = lzma.LZMADecompressor(format=lzma.FORMAT_XZ).decompress(payload)
if not kernel.startswith(b"\x7fELF"):
    sys.exit("no ELF file is packed there")
with open(sys.argv[2], "wb") as out:
    out.write(kernel)
