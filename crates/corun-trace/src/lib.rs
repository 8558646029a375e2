//! The QEMU plug-in that watches a program's memory accesses.
