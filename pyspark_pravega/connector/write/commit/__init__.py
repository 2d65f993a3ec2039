"""The commit of a job: `committer` goes through it step by step, `attempts` brings together what counts of what tasks
have written, `promise` is the job's entry in the commit log, `several` commits jobs of several tables at once, and
`stages` names the states that a commit has.

It knows plans and what tasks have written, and nothing of the jobs that use it.
"""

from pyspark_pravega.connector.write.commit.committer import Committer
from pyspark_pravega.connector.write.commit.promise import Promise, Replacing
from pyspark_pravega.connector.write.commit.several import Guard, Look, Part, Several
from pyspark_pravega.connector.write.commit.stages import Stage

__all__ = ["Committer", "Guard", "Look", "Part", "Promise", "Replacing", "Several", "Stage"]
