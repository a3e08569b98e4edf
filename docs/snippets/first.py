import addnorm
import numpy as np

x = np.array([[1, 2, 3, 4]], np.float32)
branch = np.array([[0.5, -1, 2, 0]], np.float32)
y, s, statistics = addnorm.add_norm(x, branch)  # s = x + branch, y = LayerNorm(s)
print(s, np.round(y, 3))
