"""For editors and type checkers. Written by .ci/write_stubs.py."""

from gtape.ops.linalg.banded import banded_triangular_solve
from gtape.ops.linalg.banded import tridiagonal_matmul
from gtape.ops.linalg.banded import tridiagonal_solve
from gtape.ops.linalg.cholesky import cholesky
from gtape.ops.linalg.cholesky import cholesky_solve
from gtape.ops.linalg.decompositions import lstsq
from gtape.ops.linalg.decompositions import normalize
from gtape.ops.linalg.decompositions import pinv
from gtape.ops.linalg.decompositions import qr
from gtape.ops.linalg.decompositions import tensor_diag
from gtape.ops.linalg.decompositions import tensor_diag_part
from gtape.ops.linalg.diagonal import band_part
from gtape.ops.linalg.diagonal import diag
from gtape.ops.linalg.diagonal import diag_part
from gtape.ops.linalg.diagonal import set_diag
from gtape.ops.linalg.diagonal import trace
from gtape.ops.linalg.eig import eig
from gtape.ops.linalg.eig import eigvals
from gtape.ops.linalg.einsum import einsum
from gtape.ops.linalg.einsum import tensordot
from gtape.ops.linalg.equations import inv
from gtape.ops.linalg.equations import solve
from gtape.ops.linalg.equations import triangular_solve
from gtape.ops.linalg.expm import expm
from gtape.ops.linalg.logdet import det
from gtape.ops.linalg.logdet import logdet
from gtape.ops.linalg.logdet import slogdet
from gtape.ops.linalg.lu import lu
from gtape.ops.linalg.lu import lu_matrix_inverse
from gtape.ops.linalg.lu import lu_reconstruct
from gtape.ops.linalg.lu import lu_solve
from gtape.ops.linalg.lu import matrix_rank
from gtape.ops.linalg.matmul import matmul
from gtape.ops.linalg.matmul import matrix_transpose
from gtape.ops.linalg.matmul import matvec
from gtape.ops.linalg.matrix_products import adjoint
from gtape.ops.linalg.matrix_products import cross
from gtape.ops.linalg.matrix_products import kron
from gtape.ops.linalg.norms import norm
from gtape.ops.linalg.spectral import eigh
from gtape.ops.linalg.spectral import eigvalsh
from gtape.ops.linalg.spectral import svd
from gtape.ops.nn.clipping import global_norm
from gtape.ops.nn.lookups import l2_normalize
from gtape.ops.shape.creation import eye

__all__ = [
    "adjoint", "band_part", "banded_triangular_solve", "cholesky", "cholesky_solve", "cross", "det", "diag",
    "diag_part", "eig", "eigh", "eigvals", "eigvalsh", "einsum", "expm", "eye", "global_norm", "inv", "kron",
    "l2_normalize", "logdet", "lstsq", "lu", "lu_matrix_inverse", "lu_reconstruct", "lu_solve", "matmul", "matrix_rank",
    "matrix_transpose", "matvec", "norm", "normalize", "pinv", "qr", "set_diag", "slogdet", "solve", "svd",
    "tensor_diag", "tensor_diag_part", "tensordot", "trace", "triangular_solve", "tridiagonal_matmul",
    "tridiagonal_solve",
]  # fmt: skip
