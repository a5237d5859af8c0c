"""For editors and type checkers. Written by .ci/write_stubs.py."""

from gtape.ops.banded import banded_triangular_solve
from gtape.ops.banded import tridiagonal_matmul
from gtape.ops.banded import tridiagonal_solve
from gtape.ops.cholesky import cholesky
from gtape.ops.cholesky import cholesky_solve
from gtape.ops.clipping import global_norm
from gtape.ops.creation import eye
from gtape.ops.decompositions import lstsq
from gtape.ops.decompositions import normalize
from gtape.ops.decompositions import pinv
from gtape.ops.decompositions import qr
from gtape.ops.decompositions import tensor_diag
from gtape.ops.decompositions import tensor_diag_part
from gtape.ops.diagonal import band_part
from gtape.ops.diagonal import diag
from gtape.ops.diagonal import diag_part
from gtape.ops.diagonal import set_diag
from gtape.ops.diagonal import trace
from gtape.ops.eig import eig
from gtape.ops.eig import eigvals
from gtape.ops.einsum import einsum
from gtape.ops.einsum import tensordot
from gtape.ops.equations import inv
from gtape.ops.equations import solve
from gtape.ops.equations import triangular_solve
from gtape.ops.expm import expm
from gtape.ops.logdet import det
from gtape.ops.logdet import logdet
from gtape.ops.logdet import slogdet
from gtape.ops.lu import lu
from gtape.ops.lu import lu_matrix_inverse
from gtape.ops.lu import lu_reconstruct
from gtape.ops.lu import lu_solve
from gtape.ops.lu import matrix_rank
from gtape.ops.matmul import matmul
from gtape.ops.matmul import matrix_transpose
from gtape.ops.matmul import matvec
from gtape.ops.matrix_products import adjoint
from gtape.ops.matrix_products import cross
from gtape.ops.matrix_products import kron
from gtape.ops.nn import l2_normalize
from gtape.ops.norms import norm
from gtape.ops.spectral import eigh
from gtape.ops.spectral import eigvalsh
from gtape.ops.spectral import svd

__all__ = [
    "adjoint", "band_part", "banded_triangular_solve", "cholesky", "cholesky_solve", "cross", "det", "diag",
    "diag_part", "eig", "eigh", "eigvals", "eigvalsh", "einsum", "expm", "eye", "global_norm", "inv", "kron",
    "l2_normalize", "logdet", "lstsq", "lu", "lu_matrix_inverse", "lu_reconstruct", "lu_solve", "matmul", "matrix_rank",
    "matrix_transpose", "matvec", "norm", "normalize", "pinv", "qr", "set_diag", "slogdet", "solve", "svd",
    "tensor_diag", "tensor_diag_part", "tensordot", "trace", "triangular_solve", "tridiagonal_matmul",
    "tridiagonal_solve",
]  # fmt: skip
