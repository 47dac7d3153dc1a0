"""The step for a GPU: captured as CUDA graphs, with kernels of our own. Needs Triton."""
