"""Everything that is compiled. Imported as `vecenv.kernels`."""
