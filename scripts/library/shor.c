/* Shor's algorithm on libquantum's simulated register, as in SPEC CPU2006's 462.libquantum: finds the
   period of BASE^x modulo NUMBER. `shor NUMBER BASE` */

#include <quantum.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  int n = atoi(argv[1]), base = atoi(argv[2]);
  int width = quantum_getwidth(n * n), modulus_width = quantum_getwidth(n);
  srand(1);
  quantum_reg reg = quantum_new_qureg(0, width);
  for (int i = 0; i < width; i++)
    quantum_hadamard(i, &reg);
  int scratch = 3 * modulus_width + 2;
  quantum_addscratch(scratch, &reg);
  quantum_exp_mod_n(n, base, width, modulus_width, &reg);
  for (int i = 0; i < scratch; i++)
    quantum_bmeasure(0, &reg);
  quantum_qft(width, &reg);
  for (int i = 0; i < width / 2; i++) {
    quantum_cnot(i, width - i - 1, &reg);
    quantum_cnot(width - i - 1, i, &reg);
    quantum_cnot(i, width - i - 1, &reg);
  }
  int measured = (int)quantum_measure(reg), divisor = 1 << width;
  quantum_frac_approx(&measured, &divisor, width);
  printf("%d: period %d\n", n, divisor);
  quantum_delete_qureg(&reg);
  return 0;
}
